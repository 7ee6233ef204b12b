import { mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { granted, refusedBy, requestOf } from "../../../test/support/limits/requests.ts";
import { poll } from "../../../test/support/poll.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { Limits } from "./limits.ts";
import { readLimits } from "./limits-file.ts";

const file = join(mkdtempSync(join(tmpdir(), "sluice-limits-")), "limits.yaml");
let opened: Limits | undefined;
afterEach(() => opened?.close());

function write(text: string): string {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
  return file;
}

describe("a limits file", () => {
  it.each([
    [
      "rules: [{key: a, inFlight: 1, requestPerMinute: 1}]",
      "1:31: rules[0].requestPerMinute: unknown key `requestPerMinute`; did you mean `requestsPerMinute`?",
    ],
    [
      "rules: [{key: a}]",
      "1:9: rules[0]: limits nothing; give at least one of requestsPerMinute, tokensPerMinute, inFlight",
    ],
    ["rules: [{inFlight: 0}]", "1:10: rules[0].inFlight: must be at least 1, got 0"],
    [
      "rules: [{key: a, inFlight: 1}, {key: a, requestsPerMinute: 1}]",
      "1:32: rules[1]: has the same key and model as rules[0]",
    ],
    ["redis: http://x", "redis: Redis URL http://x: the URL must begin with redis:// or rediss://"],
    ["rule: []", "unknown key `rule`; did you mean `rules`?"],
  ])("%s is an error with its place", async (text, problem) => {
    await expect(readLimits(write(text))).rejects.toMatchObject({
      code: "DOCUMENT_INVALID",
      message: expect.stringContaining(problem),
    });
  });

  it("is followed: a change counts at once and keeps what is used, a broken file changes nothing", async () => {
    const errors: string[] = [];
    const log: Logger = { ...silentLogger, error: (_, message) => void errors.push(message) };
    write("rules: [{requestsPerMinute: 2}]");
    opened = await Limits.open({ file }, { clock: realClock, random: new SeededRandom(1), log });
    const registry = new MetricsRegistry();
    await opened.start(createMetrics(registry), registry);
    const { quotas } = opened;
    const ask = () => quotas.admit(requestOf(), undefined, () => "");
    granted(ask());
    granted(ask());
    refusedBy(ask());
    const page = () => render(registry, "text");
    expect(page()).toContain('sluice_limit_refused_total{rule="all",kind="requests"} 1');
    write("rules: [{requestsPerMinute: none}]");
    await poll("the broken file", () => page().includes("\nsluice_limits_file_refused 1\n"));
    expect(errors).toEqual([
      expect.stringContaining("the gateway refuses the changed limits and keeps the old limits: invalid limits file: "),
    ]);
    refusedBy(ask());
    write("rules: [{requestsPerMinute: 4}]");
    await poll("the changed file", () => page().includes('sluice_limit{rule="all",kind="requests"} 4'));
    expect(page()).toContain("\nsluice_limits_file_refused 0\n");
    granted(ask());
    granted(ask());
    refusedBy(ask());
    expect(opened.view()).toMatchObject({
      shared: undefined,
      rules: [{ rule: "all", inUse: 1, counters: [{ counter: "all", inFlight: { here: 4, elsewhere: 0 } }] }],
    });
  });
});
