/**
 * CPU and rate of whole ext_proc exchanges at 1 KB, 16 KB and 400 KB, beside two echo servers of the same run: one on bare
 * node:http2, and one on Sluice's own HTTP/2, which is the floor.
 *
 *   node bench/extproc.ts [--seconds 4] [--warmup 2] [--rounds 5] [--match "1 KB"]
 *   node bench/extproc.ts --against ../before/src/commands/main.ts [--seconds 4] [--rounds 5] [--match "16 KB"]
 *   node bench/extproc.ts --against ../before/src/commands/main.ts --flags="--memory-limit 256Mi"
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
 * Server and client are pinned to a core each; rounds alternate between the servers. Figures are medians of the rounds, and ratios
 * medians with ranges of the ratios of each round. `others` is the most that programs outside of the benchmark used meanwhile, in
 * cores; rounds with more than 0.2 do not count while there are others. `--match` takes the case of this name, else all whose name
 * has the text. The client is `extproc-load` (C), built into .cache/
 * from bench/extproc-load/; it needs libnghttp2, OpenSSL and zlib headers. Without them a client in Node does, and says so:
 * it is slower, so that batches are smaller.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { MOST_OTHERS, median, range } from "./peers/figures.ts";
import { exchanges, type Figures, type Server } from "./support/exchanges.ts";

const root = join(import.meta.dirname, "..");
const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "4" },
    warmup: { type: "string", default: "2" },
    rounds: { type: "string", default: "5" },
    against: { type: "string" },
    // The package takes less memory than the sources, whose types Node.js strips: dist/commands/main.js.
    main: { type: "string", default: join("src", "commands", "main.ts") },
    // Flags of this checkout's picker, with blanks between them.
    flags: { type: "string", default: "" },
    "flow-control": { type: "boolean", default: false },
    match: { type: "string", default: "" },
  },
});
const MAIN = values.main;
const FLAGS = values.flags.split(" ").filter((flag) => flag !== "");
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

const named = ALL_CASES.filter(({ name }) => name === values.match);
const CASES = named.length > 0 ? named : ALL_CASES.filter(({ name }) => name.includes(values.match));
if (CASES.length === 0)
  throw new Error(`--match "${values.match}" names no case; there are ${ALL_CASES.map(({ name }) => name).join("; ")}`);

/** Port of the model servers' metrics, and the page they show. */
const MODEL_PORT = 18_765;
const PAGE = join(import.meta.dirname, "data", "vllm-metrics.txt");

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

const measure = (client: readonly string[], server: Server, args: readonly string[], seconds = values.seconds) =>
  exchanges(client, server, args, seconds, values.warmup);

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
/** @returns how many limits do not hold */
async function besideEcho(): Promise<number> {
  const echo = await start([join("bench", "support", "bare-echo.ts")], "echo");
  const bottom = await start([join("bench", "support", "own-echo.ts")], "floor");
  const epp = await startPicker(MAIN, ...FLAGS);
  let failed = 0;
  console.log(
    "case                         sluice us   echo us  x echo (range)        floor us  x floor   x reference   sluice/s   pick p99 us   MiB  others",
  );
  for (const { name, args, reference, limit } of CASES) {
    const all: (readonly [bare: Figures, floor: Figures, ours: Figures])[] = [];
    for (let round = 0; round < Number(values.rounds); round++)
      all.push([
        await measure(client, echo, args),
        await measure(client, bottom, args),
        await measure(client, epp, args),
      ]);
    const quiet = all.filter((round) => round.every(({ others }) => others <= MOST_OTHERS));
    const rounds = quiet.length > 0 ? quiet : all;
    const of = (server: 0 | 1 | 2, figure: (one: Figures) => number = ({ us }) => us): number =>
      median(rounds.map((round) => figure(round[server])));
    const ratios = rounds.map(([bare, , ours]) => ours.us / bare.us);
    const [us, ratio] = [of(2), median(ratios)];
    const share = reference === undefined ? undefined : us / reference;
    const most = limit?.echo ?? limit?.reference;
    const holds = most === undefined || (limit?.echo !== undefined ? ratio : share!) <= most;
    if (!holds) failed++;
    const columns = [
      us.toFixed(1).padStart(9),
      of(0).toFixed(1).padStart(9),
      `${ratio.toFixed(2)} (${range(ratios, (one) => one.toFixed(2))})`.padStart(20),
      of(1).toFixed(1).padStart(9),
      (us / of(1)).toFixed(2).padStart(8),
      (share?.toFixed(3) ?? "").padStart(13),
      of(2, ({ rps }) => rps)
        .toFixed(0)
        .padStart(10),
      of(2, ({ pickP99 }) => pickP99)
        .toFixed(0)
        .padStart(13),
      of(2, ({ mib }) => mib)
        .toFixed(0)
        .padStart(5),
      Math.max(...rounds.flat().map(({ others }) => others))
        .toFixed(2)
        .padStart(7),
    ];
    const unit = limit?.echo === undefined ? "reference" : "echo";
    const notes = [
      ...(most === undefined ? [] : [`${holds ? "holds" : "FAILS"}: at most ${most} x the ${unit}`]),
      ...(quiet.length === 0 ? ["no quiet round"] : []),
      ...(quiet.length > 0 && quiet.length < all.length ? [`${quiet.length} of ${all.length} rounds count`] : []),
    ];
    console.log(`${name.padEnd(28)} ${columns.join(" ")}  ${notes.join("; ")}`.trimEnd());
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
  const here = (): Promise<Server> => startPicker(MAIN, ...FLAGS);
  if (other !== undefined) return { names: ["here", "there"], starts: [here, () => startPicker(other)], limit: 1.03 };
  const config = join(scratch, "flow-control.yaml");
  writeFileSync(config, FLOW_CONTROL);
  return {
    names: ["on", "off"],
    starts: [() => startPicker(MAIN, ...FLAGS, "--config-file", config), here],
    limit: 1.05,
  };
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
