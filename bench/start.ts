/**
 * What a start costs, beside Node without a program in the same run: seconds of CPU of `--version` and `--help` until they
 * end and of the servers until their ready line, and resident memory of the idle servers.
 *
 *   node bench/start.ts [--rounds 5] [--idle 2] [--match epp] [--way dist]
 *
 * Each program starts from the sources and from `dist/` (`npm run build` makes it), with and without Node's compile cache.
 * The cache lies in a folder of this run and is filled before the first round. Ends with PASS or FAIL: limits are for `dist/`
 * with the cache.
 */
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import { memory, pause } from "./dispatch/rig.ts";
import { HEADING, holds, type Limit, line, type Start, secondsOf, secondsOfThreads } from "./start/figures.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    // Seconds between the ready line and the look at the memory.
    idle: { type: "string", default: "2" },
    match: { type: "string", default: "" },
    way: { type: "string", default: "" },
  },
});

const root = join(import.meta.dirname, "..");
const scratch = mkdtempSync(join(tmpdir(), "sluice-start-"));
const endpoints = join(scratch, "endpoints.yaml");
writeFileSync(endpoints, "endpoints: [{ name: a, address: 127.0.0.1, port: 9 }]\n");
const QUEUES = [{ queue_name: "q", igw_base_url: "http://127.0.0.1:9" }];
const TRANSPORT = JSON.stringify({ path: join(scratch, "queue.db"), result_queue_name: "results", queues: QUEUES });

interface Program {
  readonly name: string;
  readonly args: readonly string[];
  /** The name in the last ready line; undefined for a program that ends. */
  readonly ready?: string;
  /** A multiple of bare Node, on a machine where that takes 0.03 s and 43 MiB: 0.08 s, 0.72 s (docs/adr/0034), 90 MiB. */
  readonly limit?: Limit;
}

const PROGRAMS: readonly Program[] = [
  { name: "--version", args: ["--version"], limit: { cpu: 2.7 } },
  { name: "--help", args: ["--help"] },
  { name: "sim", args: ["sim", "--host", "127.0.0.1", "--port", "0"], ready: "sim" },
  {
    name: "gateway",
    args: ["gateway", "--endpoints", endpoints, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
    ready: "gateway",
  },
  {
    name: "epp",
    args: [
      ...["epp", "--endpoints", endpoints, "--bind-address", "127.0.0.1", "--drain-timeout", "0s"],
      ...["--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"],
    ],
    ready: "admin",
    limit: { cpu: 24 },
  },
  {
    name: "dispatch",
    args: [
      ...["dispatch", "--transport", "sqlite", "--transport-config", TRANSPORT, "--bind-address", "127.0.0.1"],
      ...["--health-port", "0", "--metrics-port", "0"],
    ],
    ready: "metrics",
    limit: { idle: 2.1 },
  },
];

interface Way {
  readonly name: string;
  /** The entry, relative to the repository. */
  readonly main: string;
  /** Whether Node keeps what it compiled. */
  readonly caches: boolean;
}

const WAYS: readonly Way[] = [
  { name: "sources", main: "src/commands/main.ts", caches: false },
  { name: "sources, cache", main: "src/commands/main.ts", caches: true },
  { name: "dist", main: "dist/commands/main.js", caches: false },
  { name: "dist, cache", main: "dist/commands/main.js", caches: true },
];
const LIMITED = WAYS.at(-1)!;

function environment(caches: boolean): NodeJS.ProcessEnv {
  const { NODE_COMPILE_CACHE: _, NODE_DISABLE_COMPILE_CACHE: __, ...env } = process.env;
  if (caches) return { ...env, NODE_COMPILE_CACHE: join(scratch, "compiled") };
  return { ...env, NODE_DISABLE_COMPILE_CACHE: "1" };
}

/** Runs a program to its end. The bash around it knows the times of its child, which Node does not. */
async function ended(args: readonly string[], env: NodeJS.ProcessEnv): Promise<Start> {
  const script = 'TIMEFORMAT="%3U %3S"; time "$@" > /dev/null';
  const run = promisify(execFile)("bash", ["-c", script, "bash", process.execPath, ...args], { cwd: root, env });
  return { cpu: secondsOf((await run).stderr) };
}

/** Runs a server until `found` is in its output, and looks at its memory some time later. @param signal ends it */
async function served(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  found: string,
  signal: NodeJS.Signals,
): Promise<Start> {
  const child = spawn(process.execPath, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
  const over = new Promise<void>((resolve) => child.once("close", () => resolve()));
  let text = "";
  try {
    const cpu = await new Promise<number>((resolve, reject) => {
      const look = (data: Buffer): void => {
        const before = text.includes(found);
        text += data.toString();
        if (!before && text.includes(found)) resolve(cpuOf(child.pid!));
      };
      child.stdout.on("data", look);
      child.stderr.on("data", look);
      child.once("close", (code) => reject(new Error(`${args.join(" ")} ended with ${code}:\n${text}`)));
    });
    await pause(1000 * Number(values.idle));
    const { now, peak } = memory(child.pid!);
    return { cpu, idle: now, peak };
  } finally {
    child.kill(signal);
    await over;
  }
}

/** Seconds of CPU of the threads of a process. */
function cpuOf(pid: number): number {
  const folder = `/proc/${pid}/task`;
  return secondsOfThreads(
    readdirSync(folder).map((thread) => readFileSync(join(folder, thread, "schedstat"), "latin1")),
  );
}

function start({ args, ready }: Program, { main, caches }: Way, signal: NodeJS.Signals = "SIGKILL"): Promise<Start> {
  const env = environment(caches);
  if (ready === undefined) return ended([main, ...args], env);
  return served([main, ...args], env, `listening name=${ready} `, signal);
}

/** Node without a program: a run that ends gives the CPU, one that waits gives the memory. */
async function bareNode(): Promise<Start> {
  const env = environment(false);
  const { cpu } = await ended(["-e", "0"], env);
  const waits = 'process.stdout.write("listening name=node "); setTimeout(() => {}, 1e9)';
  return { ...(await served(["-e", waits], env, "name=node", "SIGKILL")), cpu };
}

const programs = PROGRAMS.filter(({ name }) => name.includes(values.match));
const ways = WAYS.filter(({ name, main }) => name.includes(values.way) && existsSync(join(root, main)));
if (programs.length === 0 || ways.length === 0) throw new Error("nothing to measure: see --match, --way and dist/");
if (!existsSync(join(root, LIMITED.main)))
  console.log("there is no dist/, which `npm run build` makes: no limit is checked");

const bare: Start[] = [];
const cells = programs.flatMap((program) => ways.map((way) => ({ program, way, starts: [] as Start[] })));
try {
  // Node writes the cache when a process ends in order.
  for (const { program, way } of cells) if (way.caches) await start(program, way, "SIGTERM");
  for (let round = 0; round < Number(values.rounds); round++) {
    bare.push(await bareNode());
    for (const { program, way, starts } of cells) starts.push(await start(program, way));
  }
} finally {
  rmSync(scratch, { recursive: true });
}

console.log(HEADING);
console.log(line("node -e 0", "", bare, bare));
let failed = 0;
for (const { program, way, starts } of cells) {
  const limit = way === LIMITED ? program.limit : undefined;
  console.log(line(program.name, way.name, starts, bare, limit));
  if (limit !== undefined && !holds(starts, bare, limit)) failed++;
}
console.log(failed === 0 ? "PASS" : `FAIL: ${failed} limits do not hold`);
process.exitCode = failed === 0 ? 0 : 1;
