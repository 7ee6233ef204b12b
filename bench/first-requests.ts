/**
 * What the first requests after the ready line cost, beside later ones of the same process: microseconds of CPU of all threads
 * of `sluice epp`, for each exchange.
 *
 *   node bench/first-requests.ts [--rounds 3] [--main dist/commands/main.js]
 *
 * Ends with PASS or FAIL: the first 1,000 requests (200 with 400 KB) at most twice the cost of later ones. The client is
 * `extproc-load`, which bench/extproc.ts builds.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { spread } from "../src/lab/study/result.ts";
import { secondsOfThreads } from "./start/figures.ts";

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "3" }, main: { type: "string", default: "src/commands/main.ts" } },
});
const LIMIT = 2;
const root = join(import.meta.dirname, "..");
const tools = join(root, ".cache", "extproc-load");
if (!existsSync(join(tools, "extproc-load"))) throw new Error("run bench/extproc.ts first: it builds the client");

interface Case {
  readonly name: string;
  readonly args: readonly string[];
  readonly first: number;
  /** Requests until TurboFan has compiled what each one calls; the later ones come then. */
  readonly settling: number;
  readonly later: number;
}

const CASES: readonly Case[] = [
  { name: "1 KB", args: [], first: 1000, settling: 40_000, later: 20_000 },
  { name: "1 KB, 100 chunks", args: ["--response-chunks", "100"], first: 1000, settling: 5000, later: 5000 },
  {
    name: "16 KB prompt",
    args: ["--body-bytes", "16384", "--shared-prefix", "0.8"],
    first: 1000,
    settling: 30_000,
    later: 10_000,
  },
  {
    name: "400 KB prompt",
    args: ["--body-bytes", "400000", "--shared-prefix", "0.8"],
    first: 200,
    settling: 600,
    later: 600,
  },
];

const PAGES = 18_766;
const scratch = mkdtempSync(join(tmpdir(), "sluice-first-"));
const endpoints = join(scratch, "endpoints.yaml");
const list = Array.from({ length: 10 }, (_, i) => `- { name: e${i}, address: 127.0.1.${i + 1}, port: ${PAGES} }\n`);
writeFileSync(endpoints, `endpoints:\n${list.join("")}`);

/** Starts on core 0, for one case. */
async function startPicker(): Promise<{ readonly child: ChildProcess; readonly address: string }> {
  const flags = ["--secure-serving=false", "--bind-address", "127.0.0.1", "--v=0", "--endpoints", endpoints];
  const ports = ["--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"];
  const command = [process.execPath, values.main, "epp", ...flags, ...ports];
  const child = spawn("taskset", ["-c", "0", ...command], { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
  const address = await new Promise<string>((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (data: Buffer) => {
      text += data.toString();
      const found = /name=ext-proc address=(\S+)[\s\S]*name=admin/.exec(text);
      if (found !== null) resolve(found[1]!);
    });
    child.on("exit", (code) => reject(new Error(`epp ended with ${code}`)));
  });
  return { child, address };
}

/** Microseconds of CPU of the picker for each of `count` exchanges. */
function cost(pid: number, address: string, count: number, args: readonly string[]): number {
  const folder = `/proc/${pid}/task`;
  const cpu = (): number =>
    secondsOfThreads(readdirSync(folder).map((thread) => readFileSync(join(folder, thread, "schedstat"), "latin1")));
  const before = cpu();
  const load = [join(tools, "extproc-load"), "--addr", address, "--requests", String(count), "--json", ...args];
  const { errors } = JSON.parse(execFileSync("taskset", ["-c", "1", ...load], { encoding: "utf8" })) as {
    errors: number;
  };
  if (errors > 0) throw new Error(`${errors} of ${count} exchanges failed`);
  return ((cpu() - before) / count) * 1e6;
}

const pages = spawn(
  "taskset",
  [
    "-c",
    "1",
    join(tools, "fakevllm"),
    "--port",
    String(PAGES),
    "--page",
    join(import.meta.dirname, "data", "vllm-metrics.txt"),
  ],
  { stdio: "ignore" },
);
let failed = 0;
console.log("case                 first us   later us   first / later");
try {
  for (const { name, args, first, settling, later } of CASES) {
    const firsts: number[] = [];
    const laters: number[] = [];
    for (let round = 0; round < Number(values.rounds); round++) {
      const { child, address } = await startPicker();
      firsts.push(cost(child.pid!, address, first, args));
      cost(child.pid!, address, settling, args);
      laters.push(cost(child.pid!, address, later, args));
      child.kill("SIGKILL");
    }
    const [early, late] = [spread(firsts).median, spread(laters).median];
    const ratio = early / late;
    if (ratio > LIMIT) failed++;
    console.log(
      `${name.padEnd(19)} ${early.toFixed(0).padStart(9)} ${late.toFixed(0).padStart(10)} ${ratio.toFixed(2).padStart(15)}  ${ratio <= LIMIT ? "holds" : "FAILS"}: at most ${LIMIT}`,
    );
  }
} finally {
  pages.kill("SIGKILL");
  rmSync(scratch, { recursive: true });
}
console.log(failed === 0 ? "PASS" : `FAIL: ${failed} limits do not hold`);
process.exit(failed === 0 ? 0 : 1);
