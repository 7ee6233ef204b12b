import { appendFileSync } from "node:fs";
import type { Reporter, TestModule, TestRunEndReason } from "vitest/node";

/** Adds this run's counts to the file that SLUICE_COUNTS names: a lane of several runs prints one closing line. */
export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[], reason: TestRunEndReason): void {
    const counts = { passed: 0, failed: unhandled.length, skipped: 0 };
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const state = test.result().state;
        if (state === "passed") counts.passed++;
        else if (state === "failed") counts.failed++;
        else counts.skipped++;
      }
      // A file that could not be loaded holds no tests; it still failed.
      if (module.errors().length > 0) counts.failed++;
    }
    if (reason === "failed" && counts.failed === 0) counts.failed = 1;
    const file = process.env["SLUICE_COUNTS"];
    if (file !== undefined) appendFileSync(file, `${JSON.stringify(counts)}\n`);
  }
}
