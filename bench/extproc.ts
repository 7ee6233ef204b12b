/**
 * CPU and rate of whole ext_proc exchanges at 1 KB, 16 KB and 400 KB, beside two echo servers of the same run: one on bare
 * node:http2, and one on Sluice's own HTTP/2, which is the floor.
 *
 *   node bench/extproc.ts [--seconds 4] [--rounds 3]
 *   node bench/extproc.ts --against ../before/src/commands/main.ts [--seconds 4] [--rounds 5] [--match "16 KB"]
 *   node bench/extproc.ts --main dist/commands/main.js --against ../before/dist/commands/main.js
 *   node bench/extproc.ts --flow-control [--seconds 4] [--rounds 4] [--match "KB prompt"]
 *
 * With `--against`, the picker of another checkout takes the place of the echo. Both pickers serve a client each at the same
 * time and on the same core, so that whatever else happens on the machine slows both. Both start again in each round: one
 * checkout beside itself differs by some percent from start to start. The figure of a case is the median of the rounds' ratios.
 * MiB is the resident memory when the load of the case ends: the median of the rounds. A picker serves the cases one after the
 * other, and keeps some of what an earlier case took; `--match` measures one alone.
 *
 * With `--flow-control`, this checkout runs with flow control on beside itself with flow control off, in the same way. The
 * limits are so high that no request waits.
 *
 * Server and client are pinned to a core each; rounds alternate between the servers, and the smallest figure of each
 * counts: what other work on the machine adds is never negative. The client is `extproc-load` (C), built into .cache/
 * from bench/extproc-load/; it needs libnghttp2, OpenSSL and zlib headers. Without them a client in Node does, and says so:
 * it is slower, so that batches are smaller.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs, promisify } from "node:util";
import { quantile } from "../src/base/telemetry/quantile.ts";

const root = join(import.meta.dirname, "..");
const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "4" },
    rounds: { type: "string", default: "3" },
    against: { type: "string" },
    // The package takes less memory than the sources, whose types Node.js strips: dist/commands/main.js.
    main: { type: "string", default: join("src", "commands", "main.ts") },
    "flow-control": { type: "boolean", default: false },
    match: { type: "string", default: "" },
  },
});
const MAIN = values.main;
const against = values.against === undefined ? undefined : resolve(values.against);
if (against !== undefined && values["flow-control"]) throw new Error("give --against or --flow-control, not both");

interface Case {
  readonly name: string;
  readonly args: readonly string[];
  /** Microseconds of CPU of the reference (llm-d-router HEAD, defaults, 10 endpoints, one core of a machine like this). */
  readonly reference: number | undefined;
  /** At most this many times the bare echo, or this share of the reference. */
  readonly limit?: { readonly echo?: number; readonly reference?: number };
}

const ALL_CASES: readonly Case[] = [
  { name: "1 KB", args: [], reference: 444, limit: { echo: 3 } },
  { name: "1 KB, ended by reset", args: ["--reset"], reference: undefined, limit: { echo: 3 } },
  {
    name: "16 KB prompt",
    args: ["--body-bytes", "16384", "--shared-prefix", "0.8", "--groups", "50"],
    reference: 1243,
    limit: { reference: 0.1 },
  },
  {
    name: "400 KB prompt, pick only",
    args: ["--body-bytes", "400000", "--shared-prefix", "0.8", "--pick-only"],
    reference: 17_000,
    limit: { reference: 0.1 },
  },
  {
    name: "400 KB prompt, 1,000 chunks",
    args: ["--body-bytes", "400000", "--shared-prefix", "0.8", "--response-chunks", "1000"],
    reference: 26_000,
    limit: { reference: 0.1 },
  },
  { name: "1 KB, 1,000 chunks", args: ["--response-chunks", "1000"], reference: 12_000 },
];

const CASES = ALL_CASES.filter(({ name }) => name.includes(values.match));
if (CASES.length === 0)
  throw new Error(`--match "${values.match}" names no case; there are ${ALL_CASES.map(({ name }) => name).join("; ")}`);

/** Port of the model servers' metrics, and the page they show. */
const MODEL_PORT = 18_765;
const PAGE = join(import.meta.dirname, "data", "vllm-metrics.txt");

interface Figures {
  readonly us: number;
  readonly rps: number;
  readonly pickP99: number;
  /** Resident memory at the end. */
  readonly mib: number;
}

const started: ChildProcess[] = [];
process.on("exit", () => {
  for (const child of started) child.kill("SIGKILL");
});

/** The C client and the fake model servers, built once. */
function build(): string {
  const folder = join(root, ".cache", "extproc-load");
  if (existsSync(join(folder, "extproc-load")) && existsSync(join(folder, "fakevllm"))) return folder;
  mkdirSync(folder, { recursive: true });
  cpSync(join(import.meta.dirname, "extproc-load"), folder, { recursive: true });
  execFileSync("make", ["-s"], { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  return folder;
}

interface Server {
  readonly pid: number;
  readonly port: number;
}

/** Starts a server on core 0 and waits for its ready line. @returns pid and port */
function start(args: readonly string[], name: string): Promise<Server> {
  const child = spawn("taskset", ["-c", "0", process.execPath, ...args], {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
  });
  started.push(child);
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (data: Buffer) => {
      text += data.toString();
      const line = new RegExp(`listening name=${name} address=\\S+:(\\d+) pid=(\\d+)`).exec(text);
      if (line !== null) resolve({ port: Number(line[1]), pid: Number(line[2]) });
    });
    // Also the end of a started server by besideOther; its promise is settled by then.
    child.on("exit", (code) => reject(new Error(`${name} ended with ${code}`)));
  });
}

/** Seconds of load between the start of two pickers and the first case. */
const WARM_SECONDS = "4";

async function measure(
  client: readonly string[],
  server: Server,
  args: readonly string[],
  seconds: string = values.seconds,
): Promise<Figures> {
  const address = ["--addr", `127.0.0.1:${server.port}`, "--server-pid", String(server.pid)];
  const time = ["--duration", seconds, "--warmup", "2", "--json"];
  const { stdout } = await promisify(execFile)("taskset", ["-c", "1", ...client, ...address, ...time, ...args]);
  const figures = JSON.parse(stdout) as {
    srv_us_req: number | null;
    rps: number;
    errors: number;
    immediate: object;
    pick_us: { p99: number };
  };
  // NaN leaves JSON as null.
  if (!figures.srv_us_req) throw new Error(`no exchange ended in ${values.seconds} s; give more --seconds`);
  if (figures.errors > 0 || Object.keys(figures.immediate).length > 0)
    throw new Error(`the exchange failed: ${stdout}`);
  const mib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))![1]) / 1024;
  return { us: figures.srv_us_req, rps: figures.rps, pickP99: figures.pick_us.p99, mib };
}

let client = [process.execPath, join(import.meta.dirname, "support", "node-load.ts")];
let pages = [process.execPath, join(import.meta.dirname, "support", "page-server.ts"), String(MODEL_PORT)];
try {
  const folder = build();
  client = [join(folder, "extproc-load")];
  pages = [join(folder, "fakevllm"), "--port", String(MODEL_PORT), "--page", PAGE];
} catch (error) {
  console.log(`the C client cannot be built (${error instanceof Error ? error.message.split("\n")[0] : error});`);
  console.log("a client in Node takes its place: slower, so batches are smaller; ratios hold within this run");
  console.log("(Debian: libnghttp2-dev libssl-dev zlib1g-dev)\n");
}
const scratch = mkdtempSync(join(tmpdir(), "sluice-bench-"));
const endpoints = join(scratch, "endpoints.yaml");
started.push(spawn("taskset", ["-c", "1", ...pages], { stdio: "ignore" }));
writeFileSync(
  endpoints,
  `endpoints:\n${Array.from({ length: 10 }, (_, i) => `- { name: e${i}, address: 127.0.1.${i + 1}, port: ${MODEL_PORT} }\n`).join("")}`,
);
/** @param main the entry of a checkout: `src/commands/main.ts` @param more flags */
const startPicker = (main: string, ...more: readonly string[]): Promise<Server> =>
  start(
    [
      main,
      "epp",
      ...more,
      "--endpoints",
      endpoints,
      "--secure-serving=false",
      "--bind-address",
      "127.0.0.1",
      "--grpc-port",
      "0",
      "--grpc-health-port",
      "0",
      "--metrics-port",
      "0",
      "--v=0",
    ],
    "ext-proc",
  );

const least = (figures: readonly Figures[]): Figures => figures.reduce((best, one) => (one.us < best.us ? one : best));
const median = (figures: readonly number[]): number =>
  quantile(
    figures.toSorted((a, b) => a - b),
    0.5,
  );

/** @returns how many limits do not hold */
async function besideEcho(): Promise<number> {
  const echo = await start([join("bench", "support", "bare-echo.ts")], "echo");
  const bottom = await start([join("bench", "support", "own-echo.ts")], "floor");
  const epp = await startPicker(MAIN);
  let failed = 0;
  console.log(
    "case                          sluice us   echo us   x echo  floor us   reference us   x reference   sluice/s   pick p99 us   MiB",
  );
  for (const { name, args, reference, limit } of CASES) {
    const ours: Figures[] = [];
    const bare: Figures[] = [];
    const floor: Figures[] = [];
    for (let round = 0; round < Number(values.rounds); round++) {
      bare.push(await measure(client, echo, args));
      floor.push(await measure(client, bottom, args));
      ours.push(await measure(client, epp, args));
    }
    const [us, bareUs] = [least(ours), least(bare)];
    const ratio = us.us / bareUs.us;
    const share = reference === undefined ? Number.NaN : us.us / reference;
    const holds =
      (limit?.echo === undefined || ratio <= limit.echo) &&
      (limit?.reference === undefined || share <= limit.reference);
    if (!holds) failed++;
    const limits =
      limit === undefined
        ? ""
        : `  ${holds ? "holds" : "FAILS"}: at most ${limit.echo !== undefined ? `${limit.echo} x the echo` : `${limit.reference} x the reference`}`;
    console.log(
      `${name.padEnd(28)} ${us.us.toFixed(1).padStart(10)} ${bareUs.us.toFixed(1).padStart(9)} ${ratio.toFixed(2).padStart(8)} ${least(floor).us.toFixed(1).padStart(9)} ${String(reference ?? "").padStart(14)} ${(Number.isNaN(share) ? "" : share.toFixed(3)).padStart(13)} ${us.rps.toFixed(0).padStart(10)} ${String(us.pickP99).padStart(13)} ${median(
        ours.map((figures) => figures.mib),
      )
        .toFixed(0)
        .padStart(5)}${limits}`,
    );
  }
  return failed;
}

/** The default configuration with flow control on. The thresholds of the default detector leave room for every request. */
const FLOW_CONTROL = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- { type: utilization-detector, parameters: { queueDepthThreshold: 1000000, kvCacheUtilThreshold: 1 } }
`;

/** Two pickers, each with its name in the table, and the most that the first may take of the CPU time of the second. */
interface Pair {
  readonly names: readonly [string, string];
  readonly starts: readonly [() => Promise<Server>, () => Promise<Server>];
  readonly limit: number;
}

function pairOf(other: string | undefined): Pair {
  const here = (): Promise<Server> => startPicker(MAIN);
  if (other !== undefined) return { names: ["here", "there"], starts: [here, () => startPicker(other)], limit: 1.03 };
  const config = join(scratch, "flow-control.yaml");
  writeFileSync(config, FLOW_CONTROL);
  return { names: ["on", "off"], starts: [() => startPicker(MAIN, "--config-file", config), here], limit: 1.05 };
}

/** @returns how many cases are above the limit */
async function besideOther({ names, starts, limit }: Pair): Promise<number> {
  const here = CASES.map((): Figures[] => []);
  const there = CASES.map((): Figures[] => []);
  for (let round = 0; round < Number(values.rounds); round++) {
    const order = round % 2 === 0 ? starts : starts.toReversed();
    const servers = [await order[0]!(), await order[1]!()];
    const [ours, theirs] = (round % 2 === 0 ? servers : servers.toReversed()) as [Server, Server];
    // Else the first case would measure how far the compilers have come.
    await Promise.all([ours, theirs].map((server) => measure(client, server, [], WARM_SECONDS)));
    for (const [index, { args }] of CASES.entries()) {
      const [us, before] = await Promise.all([measure(client, ours, args), measure(client, theirs, args)]);
      here[index]!.push(us);
      there[index]!.push(before);
    }
    for (const { pid } of servers) process.kill(pid, "SIGKILL");
  }
  let failed = 0;
  const [first, second] = names;
  console.log(
    `case                         ${`us ${first}`.padStart(8)} ${`us ${second}`.padStart(9)} ${`least: ${first} / ${second}`.padStart(20)}  median of the rounds' ratios${`MiB ${first} / ${second}`.padStart(24)}`,
  );
  for (const [index, { name }] of CASES.entries()) {
    const [us, beforeUs] = [least(here[index]!).us, least(there[index]!).us];
    const ratios = here[index]!.map((figures, round) => figures.us / there[index]![round]!.us);
    const ratio = median(ratios);
    const [mib, otherMib] = [here, there].map((all) => median(all[index]!.map((figures) => figures.mib)));
    if (ratio > limit) failed++;
    console.log(
      `${name.padEnd(28)} ${us.toFixed(1).padStart(8)} ${beforeUs.toFixed(1).padStart(9)} ${(us / beforeUs).toFixed(3).padStart(20)} ${ratio.toFixed(3).padStart(13)} ${`${mib!.toFixed(0)} / ${otherMib!.toFixed(0)}`.padStart(39)}  ${ratio <= limit ? "holds" : "FAILS"}: at most ${limit}`,
    );
  }
  return failed;
}

const failed = await (against === undefined && !values["flow-control"] ? besideEcho() : besideOther(pairOf(against)));
rmSync(scratch, { recursive: true });
console.log(failed === 0 ? "PASS" : `FAIL: ${failed} limits do not hold`);
process.exit(failed === 0 ? 0 : 1);
