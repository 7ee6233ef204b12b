/**
 * The lanes: `check`, `unit`, `parts`, `test` (all three), `soak`, and `kubernetes`, which is test/kubernetes on a real API
 * server. Each step prints its seconds; the last line of a lane that ran tests is `N passed, N failed`.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunCounts } from "./count-reporter.ts";

/** Failed tests that are named at the end, at most. */
const LISTED = 50;

const root = join(import.meta.dirname, "..");
const bin = (name: string): string => join(root, "node_modules", ".bin", name);

interface Step {
  readonly name: string;
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const CHECK: readonly Step[] = [
  { name: "types", command: [bin("tsc"), "-p", "tsconfig.json"] },
  { name: "browser-safe rooms", command: [bin("tsc"), "-p", "tsconfig.browser.json"] },
  { name: "the page", command: [bin("tsc"), "-p", "dashboard/tsconfig.json"] },
  { name: "lint and format", command: [bin("biome"), "check", "--error-on-warnings", "."] },
  { name: "unused code", command: [bin("knip")] },
  { name: "arrows", command: [process.execPath, "scripts/arrows.ts"] },
  { name: "links", command: [process.execPath, "scripts/links.ts"] },
  { name: "words", command: [process.execPath, "scripts/words.ts"] },
  { name: "citations", command: [process.execPath, "scripts/citations.ts"] },
  { name: "generated docs", command: [process.execPath, "scripts/docs.ts", "--check"] },
  { name: "generated CRDs", command: [process.execPath, "scripts/crds.ts", "--check"] },
];

/** Tests of the lanes with real parts start what `BUILD` has just built. */
const vitest = (lane: string, ...only: readonly string[]): Step => ({
  name: `${lane} tests`,
  command: [bin("vitest"), "run", "--reporter=default", "--reporter=./scripts/count-reporter.ts", ...only],
  env: { SLUICE_LANE: lane, ...(lane === "unit" ? {} : { SLUICE_PROGRAM: join(root, "dist", "commands", "main.js") }) },
});

const parts = (...which: readonly string[]): Step => ({
  name: "parts",
  command: [process.execPath, "scripts/test-parts.ts", ...which],
});
/** Planted mistakes: the tests that guard what costs safety are tested themselves. */
const MUTANTS: Step = { name: "mutants", command: [process.execPath, "scripts/mutants.ts"] };
const BUILD: Step = { name: "build", command: [process.execPath, "scripts/build.ts"] };

/** What the tests of the page show is kept as pictures, for people who look at a run. */
const SCREENSHOTS = process.env["SLUICE_SCREENSHOTS"] ?? join(root, ".cache", "screenshots");
const PARTS: readonly Step[] = [parts(), BUILD, vitest("parts")];
/** The Kubernetes tests on a real API server, and only on that. */
const KUBERNETES: readonly Step[] = [parts(), BUILD, vitest("parts", "test/kubernetes")].map((step) => ({
  ...step,
  env: { ...step.env, SLUICE_API_SERVER: "real" },
}));

const LANES: Readonly<Record<string, readonly Step[]>> = {
  check: CHECK,
  unit: [vitest("unit")],
  parts: PARTS,
  test: [...CHECK, vitest("unit"), ...PARTS],
  soak: [parts("soak"), BUILD, vitest("soak"), MUTANTS],
  kubernetes: KUBERNETES,
};

const [lane = "test", ...rest] = process.argv.slice(2);
const steps = LANES[lane];
if (steps === undefined) {
  console.error(`unknown lane ${lane}; there are ${Object.keys(LANES).join(", ")}`);
  process.exit(2);
}

mkdirSync(SCREENSHOTS, { recursive: true });
const scratch = mkdtempSync(join(tmpdir(), "sluice-lane-"));
const counts = join(scratch, "counts");
writeFileSync(counts, "");
const started = performance.now();
const broken: string[] = [];
for (const step of steps) {
  console.log(`\n=== ${step.name}`);
  const begin = performance.now();
  const extra = step.command[0] === bin("vitest") ? rest : [];
  const { status } = spawnSync(step.command[0]!, [...step.command.slice(1), ...extra], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, SLUICE_SCREENSHOTS: SCREENSHOTS, ...step.env, SLUICE_COUNTS: counts },
  });
  console.log(
    `=== ${step.name}: ${status === 0 ? "ok" : "FAILED"}, ${((performance.now() - begin) / 1000).toFixed(1)} s`,
  );
  if (status !== 0) {
    broken.push(step.name);
    // A part that cannot be had, or a package that cannot be built, makes every later step meaningless.
    if (!step.name.endsWith("tests") && steps !== CHECK && !CHECK.includes(step)) break;
  }
}

const total = { passed: 0, failed: 0, skipped: 0 };
const failures: string[] = [];
for (const line of readFileSync(counts, "utf8").split("\n").filter(Boolean)) {
  const run = JSON.parse(line) as RunCounts;
  total.passed += run.passed;
  total.failed += run.failed;
  total.skipped += run.skipped;
  failures.push(...run.failures);
}
rmSync(scratch, { recursive: true });
// With CI=true nothing may be skipped: a test that did not run is not green.
const skippedInCi = process.env["CI"] === "true" ? total.skipped : 0;
const failed = Math.max(total.failed + skippedInCi, broken.length > 0 ? 1 : 0);
// What stands far above is said again where people look first.
for (const name of broken) console.log(`step failed: ${name}`);
for (const name of failures.slice(0, LISTED)) console.log(`test failed: ${name}`);
if (failures.length > LISTED) console.log(`and ${failures.length - LISTED} more`);
if (skippedInCi > 0) console.log(`${skippedInCi} tests were skipped, which CI=true counts as failed`);
console.log(`\nlane ${lane}: ${((performance.now() - started) / 1000).toFixed(1)} s`);
if (lane !== "check") console.log(`${total.passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || broken.length > 0 ? 1 : 0;
