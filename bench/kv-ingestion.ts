/**
 * Whether KV-cache events on the decision thread delay decisions: 500 decisions a second at random times, without events and beside
 * 50,000 events a second, one block to an event, as engines send them while they generate. What counts is the time from the moment
 * when a decision is due to its end.
 *
 *   node bench/kv-ingestion.ts [--seconds 5] [--rate 50000]
 *
 * What must hold: the p99 beside events is at most 2 ms later, twice the slice of `IngestBudget`.
 */
import { setImmediate as turn } from "node:timers/promises";
import { parseArgs } from "node:util";
import { encode } from "@msgpack/msgpack";
import { SeededRandom } from "../src/base/clock/random.ts";
import { realClock } from "../src/base/clock/real.ts";
import { TOKENIZED_PROMPT } from "../src/base/plugin/keys.ts";
import { quantile } from "../src/base/telemetry/quantile.ts";
import type { EventSockets, SubscriptionEvents } from "../src/picker/kv-events/sockets.ts";
import { PrecisePrefixCache } from "../src/picker/scheduling/plugins/prefix/precise-cache.ts";
import { precisePrefixCacheProducer } from "../src/picker/scheduling/plugins/prefix/precise-prefix-cache.ts";
import { pluginContextOf } from "../test/support/plugin-context.ts";
import { columnsOf, endpointOf, produceContextOf, requestOf } from "../test/support/scheduling/fakes.cases.ts";

const ENDPOINTS = 16;
const BLOCK = 16;
const DECISIONS = 500;
const PER_MESSAGE = 10;
const PROMPT_TOKENS = 6_000;
const LATE_MS = 2;

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "5" }, rate: { type: "string", default: "50000" } },
});
const random = new SeededRandom(5);

/** Messages for endless streams: each block follows the one before it, and the block of 20,000 events ago goes. */
class Engine {
  #next = 0;
  #sequence = 0;

  message(): { topic: string; sequence: number; payload: Buffer } {
    const events: unknown[] = [];
    for (let i = 0; i < PER_MESSAGE / 2; i++) {
      const block = ++this.#next;
      const tokens = Array.from({ length: BLOCK }, () => random.below(150_000));
      events.push(["BlockStored", [block], block % 400 === 1 ? null : block - 1, tokens, BLOCK]);
      events.push(["BlockRemoved", [block > 10_000 ? block - 10_000 : block]]);
    }
    return { topic: "kv@a@m", sequence: this.#sequence++, payload: Buffer.from(encode([1.5, events])) };
  }
}

// The pauses of the feed keep no process alive.
const alive = setInterval(() => {}, 1000);
const heard: SubscriptionEvents[] = [];
const sockets: EventSockets = {
  subscribe(_address, _topic, _bind, events) {
    heard.push(events);
    return { close() {} };
  },
  replay: () => ({ close() {} }),
};
const cache = new PrecisePrefixCache(
  precisePrefixCacheProducer.parameters.parse({}) as never,
  pluginContextOf("exact", { clock: realClock }),
  sockets,
);
const pool = Array.from({ length: ENDPOINTS }, (_, slot) => endpointOf(slot));
for (const endpoint of pool) cache.endpointAdded(endpoint);
const engines = pool.map(() => new Engine());

const ids = Array.from({ length: PROMPT_TOKENS }, () => random.below(150_000));
const bytes = new Uint8Array(Int32Array.from(ids).buffer);
const tokenized = { tokens: bytes, prompts: [{ start: 0, end: bytes.length }], count: PROMPT_TOKENS };
const hashes = Array.from({ length: PROMPT_TOKENS / BLOCK }, (_, i) => 1_000_000_000 + i);
for (const [slot, events] of heard.entries()) {
  const message = engines[slot]!.message();
  const payload = Buffer.from(encode([1.5, [["BlockStored", hashes, null, ids, BLOCK]]]));
  await events.message({ ...message, payload });
}
const columns = columnsOf(pool, [
  ...precisePrefixCacheProducer.produces.map((key) => [key, []] as const),
  [TOKENIZED_PROMPT, tokenized],
]);
const request = requestOf("x", { targetModel: "m" });

/** Delivers the messages of one endpoint, as its socket does: the next one waits for what the last one asks for. */
async function deliver(slot: number, rate: number, until: number, late: number[]): Promise<void> {
  const gap = (1000 * PER_MESSAGE) / rate;
  // Made beforehand, so that only the work of the picker counts.
  const messages = Array.from({ length: Math.ceil((until - realClock.now()) / gap) }, () => engines[slot]!.message());
  const start = realClock.now();
  for (const [i, message] of messages.entries()) {
    const due = start + i * gap;
    while (realClock.now() < due) await turn();
    late.push(realClock.now() - due);
    const pause = heard[slot]!.message(message);
    if (pause !== undefined) await pause;
  }
}

async function decide(until: number, took: number[]): Promise<void> {
  let due = realClock.now();
  for (;;) {
    due += -Math.log(1 - random.next()) * (1000 / DECISIONS);
    if (due > until) return;
    while (realClock.now() < due) await turn();
    cache.produce(produceContextOf(columns, request));
    took.push(realClock.now() - due);
  }
}

const p99: number[] = [];
for (const rate of [0, Number(values.rate), 0, Number(values.rate)]) {
  const took: number[] = [];
  const late: number[] = [];
  const until = realClock.now() + 1000 * Number(values.seconds);
  const flows = rate === 0 ? [] : pool.map((_, slot) => deliver(slot, rate / ENDPOINTS, until, late));
  await Promise.all([decide(until + 500, took), ...flows]);
  took.sort((a, b) => a - b);
  late.sort((a, b) => a - b);
  p99.push(quantile(took, 0.99));
  console.log(
    `${rate.toLocaleString("en")} events/s: ${took.length} decisions, p50 ${quantile(took, 0.5).toFixed(2)} ms, p99 ${quantile(took, 0.99).toFixed(2)} ms, worst ${quantile(took, 1).toFixed(2)} ms${rate === 0 ? "" : `; messages p99 ${quantile(late, 0.99).toFixed(1)} ms late`}`,
  );
}
cache.close();
clearInterval(alive);
const later = Math.min(p99[1]!, p99[3]!) - Math.min(p99[0]!, p99[2]!);
const holds = later <= LATE_MS;
console.log(
  `${holds ? "holds" : "FAILS"}: the p99 of decisions is ${later.toFixed(2)} ms later beside events, at most ${LATE_MS} ms`,
);
if (!holds) process.exitCode = 1;
