/**
 * Plants the mistakes of `scripts/mutants/*.yaml`, one at a time, and runs the tests that must notice. A mutant that no
 * test notices ends the run with status 1.
 *
 *   node scripts/mutants.ts [--module NAME] [--match TEXT] [--workers 2]
 *
 * Each worker plants in a copy of the repository of its own: the work tree stays as it is.
 */
import { execFileSync, spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import type { RunCounts } from "./count-reporter.ts";
import { type Mutant, mutantModules, planted } from "./mutants/list.ts";

const root = join(import.meta.dirname, "..");
/** A mutant may loop for ever: its tests end after this many times what they take without it. */
const PATIENCE = 10;
const LEAST_LIMIT_MS = 60_000;

interface Outcome {
  /** The first test that failed, or why the run counts as one that failed; undefined = all tests passed. */
  readonly killer: string | undefined;
  readonly milliseconds: number;
}

/** A copy of all files that git knows or would take up. */
function copyRepository(folder: string): void {
  const names = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: root });
  for (const name of names.toString().split("\0")) {
    // A name may be deleted and not yet committed, or a link to a folder.
    if (name === "" || !existsSync(join(root, name)) || statSync(join(root, name)).isDirectory()) continue;
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    cpSync(join(root, name), join(folder, name));
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  if (existsSync(join(root, ".cache"))) symlinkSync(join(root, ".cache"), join(folder, ".cache"));
}

/** Runs the test files of one lane in the copy. @param limit milliseconds; the run is ended then and counts as failed */
async function runLane(folder: string, lane: string, tests: readonly string[], limit: number): Promise<Outcome> {
  const counts = join(folder, "mutant-counts");
  writeFileSync(counts, "");
  const begin = performance.now();
  const child = spawn(
    join(root, "node_modules", ".bin", "vitest"),
    ["run", "--bail=1", "--reporter=./scripts/count-reporter.ts", ...tests],
    { cwd: folder, stdio: "ignore", detached: true, env: { ...process.env, SLUICE_LANE: lane, SLUICE_COUNTS: counts } },
  );
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    process.kill(-child.pid!, "SIGKILL");
  }, limit);
  const status = await new Promise<number | null>((resolve) => child.on("close", resolve));
  clearTimeout(timer);
  const milliseconds = performance.now() - begin;
  if (late) return { killer: `no end within ${Math.round(limit / 1000)} s`, milliseconds };
  if (status === 0) return { killer: undefined, milliseconds };
  const [line] = readFileSync(counts, "utf8").split("\n");
  const failures = line ? (JSON.parse(line) as RunCounts).failures : [];
  return { killer: failures[0] ?? `vitest ended with status ${status}`, milliseconds };
}

async function runTests(folder: string, mutant: Mutant, limit: number): Promise<Outcome> {
  const parts = mutant.tests.filter((name) => name.startsWith("test/"));
  const unit = mutant.tests.filter((name) => !name.startsWith("test/"));
  let milliseconds = 0;
  for (const [lane, tests] of [["unit", unit] as const, ["parts", parts] as const]) {
    if (tests.length === 0) continue;
    const outcome = await runLane(folder, lane, tests, limit);
    milliseconds += outcome.milliseconds;
    if (outcome.killer !== undefined) return { ...outcome, milliseconds };
  }
  return { killer: undefined, milliseconds };
}

const { values } = parseArgs({
  options: { module: { type: "string" }, match: { type: "string" }, workers: { type: "string", default: "2" } },
});
const modules = mutantModules().filter(({ name }) => values.module === undefined || name === values.module);
const queue = modules.flatMap(({ name, mutants }) =>
  mutants
    .filter(({ file, why }) => values.match === undefined || `${file} ${why}`.includes(values.match))
    .map((mutant) => ({ module: name, mutant })),
);
const workers = Number(values.workers);
if (queue.length === 0 || !Number.isInteger(workers) || workers < 1) {
  const names = mutantModules().map(({ name }) => name);
  console.error(
    `usage: node scripts/mutants.ts [--module NAME] [--match TEXT] [--workers N]; modules: ${names.join(", ")}`,
  );
  process.exit(2);
}

// All of them at once, before the first takes its time.
for (const { mutant } of queue) planted(mutant, readFileSync(join(root, mutant.file), "utf8"));

const total = queue.length;
const survivors: string[] = [];
let died = 0;
let equivalent = 0;
/** Milliseconds that a set of tests takes without a mistake. Measured once for each set. */
const bare = new Map<string, number>();

async function judge(folder: string, module: string, mutant: Mutant): Promise<void> {
  const name = `${module}: ${mutant.file}: ${mutant.why}`;
  if (mutant.equivalent !== undefined) {
    equivalent++;
    console.log(`equivalent  ${name} (${mutant.equivalent})`);
    return;
  }
  const key = mutant.tests.join(" ");
  if (!bare.has(key)) {
    const { killer, milliseconds } = await runTests(folder, mutant, 20 * LEAST_LIMIT_MS);
    if (killer !== undefined) throw new Error(`${key}: fails without a mutant: ${killer}`);
    bare.set(key, milliseconds);
  }
  const path = join(folder, mutant.file);
  const source = readFileSync(path, "utf8");
  writeFileSync(path, planted(mutant, source));
  const { killer } = await runTests(folder, mutant, Math.max(LEAST_LIMIT_MS, PATIENCE * bare.get(key)!));
  writeFileSync(path, source);
  if (killer === undefined) survivors.push(name);
  else died++;
  console.log(
    `${died + survivors.length + equivalent}/${total} ${killer === undefined ? "SURVIVED" : "died"}  ${name}${killer === undefined ? "" : `\n        by ${killer.split("\n")[0]}`}`,
  );
}

const scratch = mkdtempSync(join(tmpdir(), "sluice-mutants-"));
try {
  await Promise.all(
    Array.from({ length: Math.min(workers, total) }, async (_, i) => {
      const folder = join(scratch, String(i));
      mkdirSync(folder);
      copyRepository(folder);
      for (let next = queue.shift(); next !== undefined; next = queue.shift())
        await judge(folder, next.module, next.mutant);
    }),
  );
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
for (const name of survivors) console.log(`survived: ${name}`);
console.log(`${died} mutants died, ${survivors.length} survived, ${equivalent} equivalent`);
if (survivors.length > 0) process.exitCode = 1;
