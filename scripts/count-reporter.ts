import { appendFileSync } from "node:fs";
import type { Reporter, TestModule, TestRunEndReason } from "vitest/node";

/** What one run adds to its lane. */
export interface RunCounts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Names of what failed, in the order of the files. */
  readonly failures: readonly string[];
  /** Names of what passed at its second try. */
  readonly flaky: readonly string[];
}

/**
 * Tests that may need their second try in one run, at most: one is a machine that paused at the wrong moment, three are
 * a bug.
 */
const FLAKY_ALLOWED = 2;
/** What these tests do is random or races on purpose: a failure that does not come again is still a failure. */
const NO_SECOND_TRY = ["test/chaos/", "test/redis/crashes", "test/redis/lost-store"];

/** Adds this run's counts to the file that SLUICE_COUNTS names: a lane of several runs prints one closing line. */
export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[], reason: TestRunEndReason): void {
    const failures = unhandled.map((error) => `outside of all tests: ${messageOf(error)}`);
    const flaky: string[] = [];
    let passed = 0;
    let skipped = 0;
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const name = `${module.relativeModuleId} > ${test.fullName}`;
        const state = test.result().state;
        if (state === "failed") failures.push(name);
        else if (state !== "passed") skipped++;
        else if (test.diagnostic()?.flaky !== true) passed++;
        else if (NO_SECOND_TRY.some((prefix) => module.relativeModuleId.startsWith(prefix))) failures.push(name);
        else flaky.push(name);
      }
      // A file that could not be loaded holds no tests; it still failed.
      if (module.errors().length > 0) failures.push(`${module.relativeModuleId}: ${messageOf(module.errors()[0])}`);
    }
    if (reason === "failed" && failures.length === 0) failures.push("the run as a whole");
    if (flaky.length > FLAKY_ALLOWED) failures.push(...flaky.splice(0));
    passed += flaky.length;
    const counts: RunCounts = { passed, failed: failures.length, skipped, failures, flaky };
    const file = process.env["SLUICE_COUNTS"];
    if (file !== undefined) appendFileSync(file, `${JSON.stringify(counts)}\n`);
  }
}

function messageOf(error: unknown): string {
  return String((error as { message?: unknown }).message ?? error).slice(0, 500);
}
