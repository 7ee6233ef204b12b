import { appendFileSync } from "node:fs";
import type { Reporter, TestModule, TestRunEndReason } from "vitest/node";

/** What one run adds to its lane. */
export interface RunCounts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Names of what failed, in the order of the files. */
  readonly failures: readonly string[];
}

/** Adds this run's counts to the file that SLUICE_COUNTS names: a lane of several runs prints one closing line. */
export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[], reason: TestRunEndReason): void {
    const failures = unhandled.map((error) => `outside of all tests: ${messageOf(error)}`);
    let passed = 0;
    let skipped = 0;
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const state = test.result().state;
        if (state === "passed") passed++;
        else if (state === "failed") failures.push(`${module.relativeModuleId} > ${test.fullName}`);
        else skipped++;
      }
      // A file that could not be loaded holds no tests; it still failed.
      if (module.errors().length > 0) failures.push(`${module.relativeModuleId}: ${messageOf(module.errors()[0])}`);
    }
    if (reason === "failed" && failures.length === 0) failures.push("the run as a whole");
    const counts: RunCounts = { passed, failed: failures.length, skipped, failures };
    const file = process.env["SLUICE_COUNTS"];
    if (file !== undefined) appendFileSync(file, `${JSON.stringify(counts)}\n`);
  }
}

function messageOf(error: unknown): string {
  return String((error as { message?: unknown }).message ?? error).slice(0, 500);
}
