/**
 * The Batch API: lines validated per second, lines answered per second, and the memory of the server.
 *
 *   node bench/batch-api.ts [--lines 100000] [--rounds 3]
 *
 * Validation runs in this process on one core, beside `wc -l` and `jq -c .` over the same file. Then `sluice batch-server` runs from the
 * sources as a process of its own, in front of a gateway of its own that answers at once. Beside it, in the same run, `sluice dispatch` works
 * off the same number of messages of a queue file. A gateway with `--batch` gets the same batch at the end, for its memory. Rounds of
 * the validation alternate, and the best of each figure counts.
 *
 * Ends with PASS or FAIL: at least 200,000 lines validated per second, at least 0.8 times the rate of the dispatcher alone, less than 300 MiB.
 * A program that is missing is a printed line.
 */
import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { checkInput } from "../src/async/batch-api/input-check.ts";
import { BatchCalls } from "../test/batch-api/calls.ts";
import { messages } from "../test/chaos/account.ts";
import { startBatchServer } from "../test/support/batch-server.ts";
import { DispatchProcess } from "../test/support/dispatch-process.ts";
import { openStore } from "../test/support/dispatch-store.ts";
import { startGateway } from "../test/support/gateway.ts";
import { GatewayProcess } from "../test/support/gateway-process.ts";
import { poll } from "../test/support/poll.ts";
import { residentMiB } from "../test/support/process.ts";
import { endpointsFile, startSims } from "../test/support/stack.ts";

const { values } = parseArgs({
  options: { lines: { type: "string", default: "100000" }, rounds: { type: "string", default: "3" } },
});
const lines = Number(values.lines);
const rounds = Number(values.rounds);
const WORKERS = 64;
const LIMITS = { validation: 200_000, share: 0.8, memory: 300 };

const folder = mkdtempSync(join(tmpdir(), "sluice-bench-batch-"));
const input = join(folder, "in.jsonl");

function writeInput(): void {
  const file = openSync(input, "w");
  for (let line = 1; line <= lines; line += 1000)
    writeSync(file, Array.from({ length: Math.min(1000, lines - line + 1) }, (_, at) => inputLine(line + at)).join(""));
  closeSync(file);
}

function inputLine(line: number): string {
  const body = { model: "m", max_tokens: 4, messages: [{ role: "user", content: `question ${line}` }] };
  return `${JSON.stringify({ custom_id: `request-${line}`, method: "POST", url: "/v1/chat/completions", body })}\n`;
}

/** Lines per second of `work`. */
async function rateOf(work: () => Promise<void> | void): Promise<number> {
  const begun = performance.now();
  await work();
  return (1000 * lines) / (performance.now() - begun);
}

async function validate(): Promise<void> {
  const { problems } = await checkInput({
    ...{
      path: input,
      endpoint: "/v1/chat/completions",
      models: undefined,
      lines,
      spill: join(folder, "ids"),
      seeds: [1, 2],
    },
    breathe: () => new Promise((resolve) => setImmediate(resolve)),
  });
  if (problems.length > 0) throw new Error(JSON.stringify(problems[0]));
}

async function measureValidation(): Promise<number> {
  const best = { ours: 0, wc: 0, jq: 0 };
  const other = (name: "wc" | "jq", args: readonly string[]) =>
    rateOf(() => void execFileSync(name, args, { stdio: ["ignore", "ignore", "inherit"] })).catch(() => 0);
  for (let round = 0; round < rounds; round++) {
    best.ours = Math.max(best.ours, await rateOf(validate));
    best.wc = Math.max(best.wc, await other("wc", ["-l", input]));
    best.jq = Math.max(best.jq, await other("jq", ["-c", ".", input]));
  }
  const beside = (["wc", "jq"] as const).map((name) =>
    best[name] === 0
      ? `${name} is missing`
      : `${(best.ours / best[name]).toFixed(3)} x ${name} (${best[name].toFixed(0)})`,
  );
  console.log(`validation: ${best.ours.toFixed(0)} lines/s, ${beside.join(", ")}`);
  return best.ours;
}

async function measureDispatcher(): Promise<number> {
  const store = await openStore("SQLite");
  const gateway = await GatewayProcess.start();
  try {
    await store.submit(messages(lines));
    const { process } = await DispatchProcess.start({
      transport: store.transport,
      gateway: gateway.url,
      workers: WORKERS,
    });
    const rate = await rateOf(async () => {
      await poll("all results", async () => (await store.countResults()) >= lines, 600_000);
    });
    await process.stop("SIGKILL");
    console.log(`the dispatcher alone, on a queue file: ${rate.toFixed(0)} messages/s`);
    return rate;
  } finally {
    await gateway.stop();
    await store.close();
  }
}

async function measureBatch(): Promise<{ readonly rate: number; readonly memory: number }> {
  const gateway = await GatewayProcess.start();
  const server = await startBatchServer(join(folder, "batches"), gateway.url, ["--batch-workers", String(WORKERS)]);
  try {
    const calls = new BatchCalls(server.url);
    let memory = 0;
    const content = readFileSync(input, "utf8");
    const rate = await rateOf(async () => {
      const id = await calls.submit(content);
      const ended = await poll(
        "the end of the batch",
        async () => {
          memory = Math.max(memory, await residentMiB(server.process.pid));
          const batch = await calls.get(id);
          return batch.status === "completed" ? batch : undefined;
        },
        600_000,
      );
      if (ended.request_counts.completed !== lines) throw new Error(JSON.stringify(ended.request_counts));
    });
    console.log(
      `the batch server: ${rate.toFixed(0)} lines/s with upload and validation, at most ${memory.toFixed(0)} MiB`,
    );
    return { rate, memory };
  } finally {
    await server.process.stop("SIGKILL");
    await gateway.stop();
  }
}

/** MiB of a gateway at most that works on the same batch in front of simulators. */
async function measureGateway(): Promise<number> {
  const sims = await startSims(2, ["--time-scale", "0.01", "--max-num-seqs", String(WORKERS)]);
  const args = ["--batch", join(folder, "gateway"), "--batch-workers", String(WORKERS)];
  const gateway = await startGateway(endpointsFile(sims.map(({ port }) => port)), args);
  try {
    const calls = new BatchCalls(`${gateway.url}/v1`);
    let memory = 0;
    const rate = await rateOf(async () => {
      const id = await calls.submit(readFileSync(input, "utf8").replaceAll('"model":"m"', '"model":"sim"'));
      const look = async (): Promise<boolean> => {
        memory = Math.max(memory, await residentMiB(gateway.process.pid));
        return (await calls.get(id)).request_counts.completed === lines;
      };
      await poll("the end of the batch", look, 1_200_000);
    });
    console.log(`the gateway with two simulators: ${rate.toFixed(0)} lines/s, at most ${memory.toFixed(0)} MiB`);
    return memory;
  } finally {
    await Promise.all([gateway, ...sims].map((one) => one.process.stop("SIGKILL")));
  }
}

try {
  writeInput();
  const validation = await measureValidation();
  const alone = await measureDispatcher();
  const batch = await measureBatch();
  const gateway = await measureGateway();
  const share = batch.rate / alone;
  console.log(`beside the dispatcher alone: ${share.toFixed(2)} x`);
  const passed =
    validation >= LIMITS.validation && share >= LIMITS.share && Math.max(batch.memory, gateway) < LIMITS.memory;
  console.log(passed ? "PASS" : "FAIL");
  process.exitCode = passed ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
