/**
 * Nanoseconds of one scheduling decision on the default profile, beside a bare typed-array loop of the same run.
 *
 *   node bench/scheduling.ts
 *
 * The loop does what no scheduler can avoid: for each endpoint and each of six columns, one per scorer, one subtraction, one division,
 * one weighted sum, and the maximum of the totals. Prompts take turns, so each is known to the endpoint it went to
 * before; "known everywhere" is the worst case for the prefix index.
 */
import { SeededRandom } from "../src/base/clock/random.ts";
import { realClock } from "../src/base/clock/real.ts";
import { type Endpoint, hostPort } from "../src/base/inference/endpoint.ts";
import { HeaderList } from "../src/base/inference/headers.ts";
import { Rejection } from "../src/base/inference/outcomes.ts";
import type { InferenceRequest } from "../src/base/inference/request.ts";
import { Scheduler } from "../src/picker/scheduling/scheduler.ts";
import { buildDefaultPlan } from "../test/support/scheduling/default-profile.ts";
import { measure } from "./support/measure.ts";

function poolOf(size: number, random: SeededRandom): Endpoint[] {
  return Array.from({ length: size }, (_, slot) => ({
    id: `default/pod-${slot}`,
    slot,
    namespace: "default",
    name: `pod-${slot}`,
    address: `10.0.${slot >> 8}.${slot & 255}`,
    port: 8000,
    hostPort: hostPort(`10.0.${slot >> 8}.${slot & 255}`, 8000),
    rank: 0,
    labels: {},
    metrics: {
      waiting: random.below(10),
      running: random.below(50),
      kvUsage: random.next(),
      maxLora: 0,
      loraRunning: new Set<string>(),
      loraWaiting: new Set<string>(),
      blockSize: 16,
      blocks: 10_000,
      scrapedAt: realClock.now(),
    },
    inFlight: { requests: random.below(20), tokens: 0 },
    state: "up",
    // Keeps them fresh for the whole run.
    scrapeInterval: 3_600_000,
  }));
}

/** Many requests of `bytes`, alike but for a number at the beginning. */
function requestsOf(bytes: number, count: number): InferenceRequest[] {
  return Array.from({ length: count }, (_, number) => {
    const body = new Uint8Array(bytes + 100).fill(97);
    new TextEncoder().encodeInto(String(number), body.subarray(50));
    return {
      id: `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`,
      headers: new HeaderList(),
      body,
      model: "meta-llama/Llama-3.1-8B-Instruct",
      targetModel: "meta-llama/Llama-3.1-8B-Instruct",
      modelRange: undefined,
      modelInsertAt: -1,
      answerFormat: "http",
      shedAt: Number.POSITIVE_INFINITY,
      objective: "",
      priority: 0,
      fairnessId: "default-flow",
      streaming: true,
      cacheSalt: "",
      prompts: [[{ start: 50, end: 50 + bytes }]],
      maxTokens: 256,
    };
  });
}

function bareLoop(size: number): () => number {
  const columns = Array.from({ length: 6 }, (_, c) => Float64Array.from({ length: size }, (_, i) => (i * 7 + c) % 50));
  const totals = new Float64Array(size);
  return () => {
    totals.fill(0);
    for (const column of columns) {
      let min = Number.POSITIVE_INFINITY;
      let max = Number.NEGATIVE_INFINITY;
      for (let i = 0; i < size; i++) {
        if (column[i]! < min) min = column[i]!;
        if (column[i]! > max) max = column[i]!;
      }
      for (let i = 0; i < size; i++) totals[i]! += ((max - column[i]!) / (max - min)) * 2;
    }
    let best = 0;
    for (let i = 1; i < size; i++) if (totals[i]! > totals[best]!) best = i;
    return best;
  };
}

/** Nanoseconds of one decision. @param everywhere one prompt that every endpoint holds, instead of many in turns */
function decision(bytes: number, size: number, everywhere: boolean): number {
  const random = new SeededRandom(1);
  const endpoints = poolOf(size, random);
  const scheduler = new Scheduler({ plan: buildDefaultPlan(realClock, random), clock: realClock, random });
  const requests = requestsOf(bytes, everywhere ? 1 : Math.max(8, Math.round((1 << 20) / bytes)));
  if (everywhere) for (const endpoint of endpoints) scheduler.schedule(requests[0]!, [endpoint], 0);
  let next = 0;
  return measure(() => {
    const outcome = scheduler.schedule(requests[next]!, endpoints, 0);
    if (outcome instanceof Rejection) throw new Error(outcome.text);
    next = next + 1 === requests.length ? 0 : next + 1;
  });
}

const rows: Record<string, unknown>[] = [];
const perEndpoint = new Map<string, number>();
// The first scheduler of a process runs code that is still being compiled: its figures are thrown away.
decision(1 << 10, 10, false);
for (const [label, bytes] of [
  ["1 KB", 1 << 10],
  ["16 KB", 16 << 10],
  ["400 KB", 400 << 10],
] as const) {
  for (const size of [10, 100, 1000]) {
    const bare = measure(bareLoop(size));
    const turns = decision(bytes, size, false);
    perEndpoint.set(`${label} ${size}`, turns / size);
    rows.push({
      prompt: label,
      endpoints: size,
      "ns per decision": Math.round(turns),
      "ns, prompt known everywhere": Math.round(decision(bytes, size, true)),
      "bare loop ns": Math.round(bare),
      "decision / bare": Number((turns / bare).toFixed(1)),
      "ns per endpoint": Math.round(turns / size),
    });
  }
}
console.table(rows);
const ratio = perEndpoint.get("1 KB 1000")! / perEndpoint.get("1 KB 100")!;
console.log(`cost per endpoint at 1,000 over that at 100, 1 KB prompts: ${ratio.toFixed(2)} (at most 1.5)`);
