/**
 * What the gateway costs beside other proxies, in front of the same model servers in the same run: requests per second of one
 * core, CPU time and added latency, at 1 KB and 16 KB of prompt and for streams of 200 chunks.
 *
 *   node bench/peers.ts [--seconds 1] [--rounds 2] [--match "16 KB"] [--only gateway] [--share 0.5]
 *   node bench/peers.ts --against ../before/src/commands/main.ts [--rounds 5]
 *   node bench/peers.ts --keep cells.json --rounds 5 --stop-after 70 [--write]
 *
 * The subjects: `sluice gateway` with all features off and with all features on (bench/peers/features.ts), nginx, haproxy,
 * sglang-router with its cache-aware policy, LiteLLM's proxy, and Envoy with `sluice epp`. Where SLUICE_REFERENCE_PICKER names a binary of the
 * reference's picker, Envoy also runs with that. A subject that this machine lacks is a printed line; `node scripts/test-parts.ts
 * bench` installs them. With `--against`, this checkout runs side by side with another one, and nothing else.
 *
 * Each round starts every subject anew on core 0; client and servers (bench/proxy-load, in C) share core 1. Per case, a closed
 * loop finds the requests per second of CPU time. Then requests arrive at random at `--share` of the rate of that loop. One arrival
 * in eight goes straight to a server: the added latency is the difference of the two distributions. That of a stream is the time to
 * its first byte; its chunks come every 2 ms. CPU time is that of all processes of a subject, from /proc. Figures are medians of the
 * rounds with ranges; `x bare` is the ratio to the gateway with all features off. `others` is what programs outside of the benchmark
 * used meanwhile, in cores: with more than 0.2, the case is measured again, and does not count if that does not help. MiB are
 * resident after the closed loop of 64 connections.
 *
 * `--only` takes parts of names of subjects, with commas between them. `--keep` keeps the figures in that file and measures what is
 * still missing of `--rounds` rounds that count; `--stop-after` begins no further subject after so many seconds. So a long comparison
 * can be made in pieces. `--write` puts the tables between the marks in docs/features.md and README.md.
 *
 * Last, the gateways with all features on and off serve a client each at the same time on the same core, so that whatever else
 * happens on the machine slows both: all features may cost at most 1.25 times the CPU time. `--only features` does only that.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { PartMissing } from "../scripts/part-cache.ts";
import { featuresOf, gatewayHelp } from "./peers/features.ts";
import { type Cell, cellOf, cpuRatio, HEADING, line, MOST_OTHERS, median, valid } from "./peers/figures.ts";
import { Kept } from "./peers/kept.ts";
import { load } from "./peers/load.ts";
import {
  gateway,
  REFERENCE_PICKER,
  type Rig,
  type Running,
  rivals,
  type Subject,
  startServers,
  stop,
} from "./peers/subjects.ts";
import { between, caption, casesTable, peersTable, type Results } from "./peers/table.ts";

const root = join(import.meta.dirname, "..");
const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "1" },
    rounds: { type: "string", default: "2" },
    match: { type: "string", default: "" },
    only: { type: "string", default: "" },
    share: { type: "string", default: "0.5" },
    against: { type: "string" },
    keep: { type: "string" },
    "stop-after": { type: "string", default: "86400" },
    write: { type: "boolean", default: false },
  },
});
const number = (name: "seconds" | "rounds" | "share" | "stop-after", least: number, most: number): number => {
  const value = Number(values[name]);
  if (!(value >= least && value <= most)) throw new Error(`--${name} must be ${least} to ${most}`);
  return value;
};
const seconds = number("seconds", 0.2, 30);
const rounds = number("rounds", 1, 50);
const share = number("share", 0.05, 0.95);
const stopAt = performance.now() + 1000 * number("stop-after", 1, 86_400);

interface Case {
  readonly name: string;
  readonly args: readonly string[];
  /** Connections of the closed loop, and of the open one. */
  readonly connections: readonly [number, number];
  /** Seconds until a figure counts. A stream lasts 0.4 s. */
  readonly warmup: number;
  /** So many times `--seconds`. */
  readonly times: number;
}

const ALL_CASES: readonly Case[] = [
  { name: "1 KB", args: ["--body", "1024"], connections: [64, 128], warmup: 0.4, times: 1 },
  { name: "16 KB", args: ["--body", "16384"], connections: [64, 128], warmup: 0.4, times: 1 },
  { name: "200 chunks", args: ["--body", "1024", "--stream"], connections: [64, 512], warmup: 0.8, times: 2 },
];
const cases = ALL_CASES.filter(({ name }) => name.includes(values.match));
if (cases.length === 0)
  throw new Error(`--match "${values.match}" names no case; there are ${ALL_CASES.map(({ name }) => name).join("; ")}`);

const MODEL = "meta-llama/Llama-3.1-8B-Instruct";
const SERVERS = 4;
/** Seconds of load after the start of a subject: V8 compiles for some seconds, and a process runs for days. */
const WARMUP = 5;
/** A loop in which no request ends is tried again for twice as long, up to this many times as long. */
const MOST_LONGER = 16;
const BARE = "sluice gateway, bare";
const FEATURED = "sluice gateway, all on";
/** The rival that does the same job. */
const BESIDE = "sglang-router";

/** The client and the servers, built into .cache/. */
function build(): string {
  const folder = join(root, ".cache", "proxy-load");
  mkdirSync(folder, { recursive: true });
  const source = join(import.meta.dirname, "proxy-load");
  execFileSync("make", ["-s", "-C", source, `OUT=${folder}`], { stdio: ["ignore", "ignore", "pipe"] });
  return folder;
}

/**
 * Measures a case. A cell during which other programs used the machine is measured once more.
 * @returns undefined where no request ends in the longest loop
 */
async function measure(client: string, running: Running, rig: Rig, one: Case): Promise<Cell | undefined> {
  const cell = await measureOnce(client, running, rig, one);
  return cell === undefined || cell.others <= MOST_OTHERS ? cell : measureOnce(client, running, rig, one);
}

async function measureOnce(
  client: string,
  running: Running,
  rig: Rig,
  one: Case,
  longer = 1,
): Promise<Cell | undefined> {
  const { args, connections, warmup, times } = one;
  const time = ["--seconds", String(seconds * times * longer), "--warmup", String(warmup * longer), ...args];
  const closed = await load(client, running, [...time, "--connections", String(connections[0])]);
  const rate = (share * closed.load.done) / closed.load.seconds;
  const open = ["--rate", Math.max(rate, 1).toFixed(1), "--connections", String(connections[1])];
  const cell = cellOf(closed, await load(client, running, [...time, ...open, "--direct", rig.endpoints[0]!]));
  if (cell !== undefined) return cell;
  // Another program had the machine, or the subject is slow.
  if (longer < MOST_LONGER) return measureOnce(client, running, rig, one, longer * 2);
  console.log(`${one.name}: no request ended in ${seconds * times * longer} s ${closed.load.error}`.trimEnd());
  return undefined;
}

/** Two gateways that are measured side by side, and the most CPU time that the first may take of that of the second. */
interface Pair {
  readonly what: string;
  readonly gateways: readonly [Subject, Subject];
  readonly limit: number;
}

interface Plan {
  readonly subjects: readonly Subject[];
  readonly pair: Pair | undefined;
}

/** What this run measures. */
function planned(main: readonly string[]): Plan {
  const bare = gateway(BARE, []);
  if (values.against !== undefined) {
    const other = gateway("sluice gateway, other", [], [process.execPath, resolve(values.against)]);
    return { subjects: [], pair: { what: "here / there", gateways: [bare, other], limit: 1.05 } };
  }
  const { has, lacks } = featuresOf(gatewayHelp(main));
  console.log(`features that are on: ${has.map(({ flag }) => flag).join(", ")}`);
  if (lacks.length > 0) console.log(`features that this checkout lacks: ${lacks.join(", ")}`);
  if (process.env[REFERENCE_PICKER] === undefined)
    console.log(`no reference picker: ${REFERENCE_PICKER} names no binary; Envoy runs with sluice epp only`);
  const featured = gateway(FEATURED, has);
  const pair: Pair = { what: "all features on / off", gateways: [featured, bare], limit: 1.25 };
  if ("features".includes(values.only) && values.only !== "") return { subjects: [], pair };
  const all = [bare, featured, ...rivals()];
  const subjects = all.filter(({ name }) => values.only.split(",").some((part) => name.includes(part)));
  if (subjects.length === 0)
    throw new Error(
      `--only "${values.only}" names no subject; there are features; ${all.map(({ name }) => name).join("; ")}`,
    );
  return { subjects, pair: subjects.includes(featured) ? pair : undefined };
}

/** The ratio of CPU per request of two gateways that serve a client each at the same time on the same core, of each case. */
async function sideBySide(
  client: string,
  rig: Rig,
  { gateways }: Pair,
  wanted: readonly Case[],
): Promise<readonly number[]> {
  const both = await Promise.all(gateways.map((one) => one.start(rig)));
  try {
    const run = async (args: readonly string[]): Promise<number> => {
      const [first, second] = await Promise.all(both.map((one) => load(client, one, args)));
      return cpuRatio(first!, second!);
    };
    await run(["--seconds", String(WARMUP), "--warmup", "0"]);
    const ratios: number[] = [];
    for (const { args, connections, warmup, times } of wanted)
      ratios.push(
        await run([
          ...["--seconds", String(2 * times * seconds), "--warmup", String(warmup), ...args],
          ...["--connections", String(connections[0] / 2)],
        ]),
      );
    return ratios;
  } finally {
    await Promise.all(both.map(stop));
  }
}

/** Measures cases of a subject that is started for it. @returns undefined where the subject is missing; a cell may be, too */
async function round(
  client: string,
  rig: Rig,
  subject: Subject,
  wanted: readonly Case[],
): Promise<readonly (Cell | undefined)[] | undefined> {
  let running: Running;
  try {
    running = await subject.start(rig);
  } catch (error) {
    if (!(error instanceof PartMissing)) throw error;
    console.log(`${subject.name} is missing: ${error.message.split("\n")[0]!.slice(0, 200)}`);
    return undefined;
  }
  try {
    await load(client, running, ["--seconds", String(WARMUP), "--warmup", "0"]);
    const cells: (Cell | undefined)[] = [];
    for (const one of wanted) cells.push(await measure(client, running, rig, one));
    return cells;
  } finally {
    await stop(running);
  }
}

/** The cells with their subjects in the order of the plan. */
function inOrder(cells: Results): Results {
  const names = [BARE, FEATURED, ...rivals().map(({ name }) => name)];
  return Object.fromEntries(names.flatMap((name) => (cells[name] === undefined ? [] : [[name, cells[name]]])));
}

/** Writes the tables of the documentation. @param missing names of subjects that this machine lacks */
function writeTables(kept: Kept, missing: readonly string[]): void {
  const names = ALL_CASES.map(({ name }) => name);
  const cells = inOrder(kept.cells);
  const below = caption(cells, `node bench/peers.ts --rounds ${rounds}`, new Date());
  for (const [page, table] of [
    [["docs", "features.md"], casesTable(cells, names, BESIDE, missing)],
    [["README.md"], peersTable(cells, names, BESIDE, missing)],
  ] as const) {
    const file = join(root, ...page);
    writeFileSync(file, between(readFileSync(file, "utf8"), "peers", `\n${table}\n${below}\n\n`));
  }
}

async function main(): Promise<number> {
  const programs = build();
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const page = join(folder, "metrics.txt");
  const template = readFileSync(join(import.meta.dirname, "data", "vllm-metrics.txt"), "utf8");
  writeFileSync(page, template.replaceAll(/@RUNN@|@WAIT@/g, "00.000").replaceAll("@KVUS@", "0.0500"));
  const port = await startServers(join(programs, "model-servers"), ["--page", page, "--model", MODEL]);
  const addresses = Array.from({ length: SERVERS }, (_, i) => `127.0.1.${i + 1}`);
  const endpointsFile = join(folder, "endpoints.yaml");
  const entries = addresses.map((address, i) => `- { name: e${i}, address: ${address}, port: "${port}" }\n`);
  writeFileSync(endpointsFile, `endpoints:\n${entries.join("")}`);
  const rig: Rig = {
    endpoints: addresses.map((address) => `${address}:${port}`),
    endpointsFile,
    model: MODEL,
    folder,
    main: [process.execPath, join(root, "src", "commands", "main.ts")],
  };
  const client = join(programs, "proxy-load");
  // This process only waits: it must not take time from the subjects.
  execFileSync("taskset", ["-apc", "1", String(process.pid)], { stdio: "ignore" });

  const { subjects, pair } = planned(rig.main);
  const missing = new Set<Subject>();
  const kept = new Kept(values.keep);
  const pairName = pair === undefined ? "" : pair.what;
  let cut = false;
  for (let at = 0; at < rounds && !cut; at++) {
    // Each round begins with another subject, so that none is always first.
    for (let turn = 0; turn < subjects.length; turn++) {
      const subject = subjects[(turn + at) % subjects.length]!;
      const wanted = cases.filter(({ name }) => valid(kept.cellsOf(subject.name, name)).length <= at);
      if (missing.has(subject) || wanted.length === 0) continue;
      cut = performance.now() > stopAt;
      if (cut) break;
      const found = await round(client, rig, subject, wanted);
      if (found === undefined) missing.add(subject);
      else
        for (const [index, cell] of found.entries())
          if (cell !== undefined) kept.addCell(subject.name, wanted[index]!.name, cell);
    }
    const wanted = cases.filter(({ name }) => kept.ratiosOf(pairName, name).length <= at);
    cut ||= performance.now() > stopAt;
    if (pair === undefined || wanted.length === 0 || cut) continue;
    for (const [index, one] of (await sideBySide(client, rig, pair, wanted)).entries())
      kept.addRatio(pairName, wanted[index]!.name, one);
  }
  if (cut) console.log("stopped by --stop-after: rounds are missing");

  if (subjects.length > 0) console.log(`\n${HEADING}`);
  const bare = subjects.find(({ name }) => name === BARE);
  for (const { name } of cases)
    for (const subject of subjects)
      if (!missing.has(subject))
        console.log(line(name, subject.name, kept.cellsOf(subject.name, name), bare && kept.cellsOf(bare.name, name)));
  if (values.write)
    writeTables(
      kept,
      [...missing].map(({ name }) => name),
    );
  if (pair === undefined) return 0;
  console.log(`\nCPU of a request, side by side, ${pair.what}`);
  let failed = 0;
  for (const { name } of cases) {
    const ratios = kept.ratiosOf(pairName, name);
    if (ratios.length === 0) continue;
    const cost = median(ratios);
    if (cost > pair.limit) failed++;
    const [least, most] = [Math.min(...ratios), Math.max(...ratios)].map((one) => one.toFixed(2));
    console.log(
      `${name.padEnd(14)} ${cost.toFixed(2)} (${least} to ${most})  ${cost > pair.limit ? "FAILS" : "holds"}: at most ${pair.limit}`,
    );
  }
  console.log(failed === 0 ? "PASS" : `FAIL: ${failed} limits do not hold`);
  return failed === 0 ? 0 : 1;
}

process.exit(await main());
