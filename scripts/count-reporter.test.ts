import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { TestModule } from "vitest/node";
import CountReporter, { type RunCounts } from "./count-reporter.ts";

type State = "passed" | "failed" | "skipped";

interface TestSketch {
  readonly state: State;
  readonly flaky?: boolean;
}

/** As much of a module of tests as the reporter reads. */
function moduleOf(relativeModuleId: string, tests: readonly TestSketch[]): TestModule {
  const cases = tests.map(({ state, flaky = false }, at) => ({
    fullName: `test ${at}`,
    result: () => ({ state }),
    diagnostic: () => ({ flaky }),
  }));
  return { relativeModuleId, children: { allTests: () => cases }, errors: () => [] } as unknown as TestModule;
}

describe("the counts of a run", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "sluice-counts-"));
    vi.stubEnv("SLUICE_COUNTS", join(folder, "counts"));
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  function countsOf(...modules: readonly TestModule[]): RunCounts {
    new CountReporter().onTestRunEnd(modules, [], "passed");
    return JSON.parse(readFileSync(join(folder, "counts"), "utf8")) as RunCounts;
  }

  const flaky: TestSketch = { state: "passed", flaky: true };

  it("name what failed and count what passed and what was skipped", () => {
    const module = moduleOf("test/a.test.ts", [{ state: "passed" }, { state: "failed" }, { state: "skipped" }]);
    expect(countsOf(module)).toEqual({
      ...{ passed: 1, failed: 1, skipped: 1 },
      ...{ failures: ["test/a.test.ts > test 1"], flaky: [] },
    });
  });

  it("name a test that passed at its second try, and count it as passed", () => {
    expect(countsOf(moduleOf("test/a.test.ts", [{ state: "passed" }, flaky, flaky]))).toEqual({
      ...{ passed: 3, failed: 0, skipped: 0, failures: [] },
      flaky: ["test/a.test.ts > test 1", "test/a.test.ts > test 2"],
    });
  });

  it("count three second tries as three failures", () => {
    const counts = countsOf(moduleOf("test/a.test.ts", [flaky, flaky]), moduleOf("test/b.test.ts", [flaky]));
    expect(counts).toMatchObject({ passed: 0, failed: 3, flaky: [] });
  });

  it("give no second try to what happens at random on purpose", () => {
    const counts = countsOf(moduleOf("test/chaos/kills.test.ts", [flaky]));
    expect(counts).toMatchObject({ passed: 0, failed: 1, failures: ["test/chaos/kills.test.ts > test 0"], flaky: [] });
  });
});
