/**
 * What a batch costs live traffic on real parts: `sluice gateway --batch` at its defaults, in front of simulated model servers.
 *
 *   node bench/batch-beside.ts [--by gateway] [--servers 3] [--share 0.4] [--seconds 25] [--lines 10000] [--tokens 20] [--scale 3]
 *
 * Streamed requests of fixed length arrive by chance, with the same times in both parts: first alone, then beside a running batch of
 * `--lines`. `--share` is the part of the slots that live traffic takes. Prints the time to first token, and the lines per second beside it
 * over what the room above the baseline allows. `--scale` makes the servers slower: at 1, a token takes 10 ms, and processes on
 * few cores then disturb each other more than the slots do. `--by server` and `--by background` run the batch in a `sluice batch-server`
 * with 64 workers in front of the gateway, with a usual key of the gateway, or with one for background requests. Ends with PASS or FAIL: TTFT p99 at most 1.25 times of running alone.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { SeededRandom } from "../src/base/clock/random.ts";
import { quantile } from "../src/base/telemetry/quantile.ts";
import { BatchCalls } from "../test/batch-api/calls.ts";
import { addKey } from "../test/clients/world.ts";
import { startBatchServer } from "../test/support/batch-server.ts";
import { chat, JSON_HEADERS } from "../test/support/client.ts";
import { startGateway } from "../test/support/gateway.ts";
import { poll } from "../test/support/poll.ts";
import { residentMiB } from "../test/support/process.ts";
import { endpointsFile, startSims } from "../test/support/stack.ts";

const { values } = parseArgs({
  options: {
    by: { type: "string", default: "gateway" },
    servers: { type: "string", default: "3" },
    share: { type: "string", default: "0.4" },
    seconds: { type: "string", default: "25" },
    lines: { type: "string", default: "10000" },
    tokens: { type: "string", default: "20" },
    scale: { type: "string", default: "3" },
  },
});
const [servers, share, seconds] = [Number(values.servers), Number(values.share), Number(values.seconds)];
const [lines, tokens, scale] = [Number(values.lines), Number(values.tokens), Number(values.scale)];
const SLOTS = 16;
const BASELINE = 0.2;
const LIMIT = 1.25;
/** Tokens of the answer of a live request, and the milliseconds that it takes: 20 for a short prompt and 10 for each further token. */
const LIVE_TOKENS = 48;
const millisecondsOf = (answer: number): number => scale * (20 + 10 * (answer - 1));

if (!["gateway", "server", "background"].includes(values.by)) throw new Error(`--by ${values.by}`);
const inGateway = values.by === "gateway";
const agent = new Agent({ keepAlive: true, maxSockets: 1000 });

const question = (more: Record<string, unknown>): string => chat("a question of some words", more);

/** Milliseconds until the first piece of a streamed answer. */
function timeToFirstToken(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const begun = performance.now();
    const options = { method: "POST", agent, headers: { ...JSON_HEADERS, authorization: `Bearer ${liveKey}` } };
    const sent = request(`${url}/v1/chat/completions`, options, (answer) => {
      if (answer.statusCode !== 200) reject(new Error(`a live request got ${answer.statusCode}`));
      answer.once("data", () => resolve(performance.now() - begun));
      answer.on("error", reject).resume();
    });
    sent.on("error", reject);
    sent.end(question({ max_tokens: LIVE_TOKENS, stream: true }));
  });
}

/** Sends live requests for `seconds`. @returns their times to first token, ascending */
async function live(url: string): Promise<readonly number[]> {
  const random = new SeededRandom(1);
  const rate = (share * servers * SLOTS) / millisecondsOf(LIVE_TOKENS);
  const begun = performance.now();
  const all: Promise<number>[] = [];
  for (let at = 0; at < seconds * 1000; at += -Math.log(1 - random.next()) / rate) {
    const wait = begun + at - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    all.push(timeToFirstToken(url));
  }
  return (await Promise.all(all)).sort((a, b) => a - b);
}

const folder = mkdtempSync(join(tmpdir(), "sluice-bench-beside-"));
const sims = await startSims(servers, ["--max-num-seqs", String(SLOTS), "--time-scale", String(scale)]);
const endpoints = endpointsFile(sims.map(({ port }) => port));
const keys = join(folder, "keys.yaml");
const liveKey = inGateway ? "none" : await addKey(keys, "live");
const gateway = await startGateway(endpoints, inGateway ? ["--batch", join(folder, "batches")] : ["--keys", keys]);
const server = inGateway
  ? undefined
  : await startBatchServer(
      join(folder, "batches"),
      gateway.url,
      [],
      await addKey(keys, "batches", ...(values.by === "background" ? ["--background"] : [])),
    );
try {
  await Promise.all(Array.from({ length: SLOTS }, () => timeToFirstToken(gateway.url)));
  const alone = await live(gateway.url);
  const memory = await residentMiB(gateway.process.pid);
  const calls = new BatchCalls(server?.url ?? `${gateway.url}/v1`);
  const rest = `"method":"POST","url":"/v1/chat/completions","body":${question({ max_tokens: tokens })}`;
  const id = await calls.submit(Array.from({ length: lines }, (_, n) => `{"custom_id":"c${n}",${rest}}\n`).join(""));
  const before = await poll("the first line", async () => (await calls.get(id)).request_counts.completed);
  const begun = performance.now();
  const beside = await live(gateway.url);
  const { status, request_counts: counts } = await calls.get(id);
  const done = (counts.completed - before) / ((performance.now() - begun) / 1000);
  const room = ((1 - BASELINE - share) * servers * SLOTS * 1000) / millisecondsOf(tokens);
  const shown = (list: readonly number[]): string =>
    [0.5, 0.9, 0.99].map((at) => `p${at * 100} ${quantile(list, at).toFixed(1)}`).join(", ");
  const ratio = quantile(beside, 0.99) / quantile(alone, 0.99);
  console.log(`alone:  ${shown(alone)} ms, ${alone.length} requests`);
  console.log(
    `beside: ${shown(beside)} ms, ${beside.length} requests; the batch is ${status}, ${counts.failed} lines failed`,
  );
  console.log(`lines: ${done.toFixed(0)}/s, ${(done / room).toFixed(2)} of the room above the baseline`);
  const now = await residentMiB(gateway.process.pid);
  console.log(`memory of the gateway: ${memory.toFixed(0)} MiB alone, ${now.toFixed(0)} MiB beside`);
  console.log(`TTFT p99 ${ratio.toFixed(2)} x of alone: ${ratio <= LIMIT ? "PASS" : "FAIL"}`);
  process.exitCode = ratio <= LIMIT ? 0 : 1;
} finally {
  await Promise.all([server, gateway, ...sims].map((one) => one?.process.stop("SIGKILL")));
  rmSync(folder, { recursive: true, force: true });
}
