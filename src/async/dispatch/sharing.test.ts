import { describe, expect, it } from "vitest";
import {
  FakeCapacity,
  Harness,
  type HarnessOptions,
  queueSettings,
} from "../../../test/support/dispatch/harness.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";

const POOLS = ["default", "other"].map((id) => ({ id, workers: 32, gate: undefined }));
const [Q, R] = [queueSettings("q"), queueSettings("r", { workerPoolId: "other" })];

/** Queues that share one capacity, wherever its gate stands. */
function sharing(over: object, options: Partial<HarnessOptions>, gatesOf = ["q", "r"]): Harness {
  const base = new Harness();
  const capacity = new FakeCapacity(base.clock, { budget: 1, baseline: 0, ...over });
  const gates = Object.fromEntries(gatesOf.map((name) => [name, capacity.gate()]));
  const harness = new Harness({ ...base, gates, ...options });
  // Answers take their time, and not always the same.
  const random = new SeededRandom(11);
  Object.defineProperty(harness.store, "latency", { get: () => 1 + random.below(4), set: () => {} });
  Object.defineProperty(harness.gateway, "latency", { get: () => 50 + random.below(100), set: () => {} });
  return harness;
}

async function submit(harness: Harness, name: string, count: number, bytes = 100): Promise<void> {
  const payload = { prompt: "x".repeat(bytes - 13) };
  await Promise.all([harness.submitMany(count, { requestQueueName: name, payload }, name), harness.run(10)]);
}

const sentOf = (harness: Harness, name: string): number =>
  harness.gateway.ids.filter((id) => id.startsWith(name)).length;

describe("queues that share a capacity", () => {
  it.each([
    ["in one pool", [Q, queueSettings("r")], ["q", "r"]],
    ["in two pools", [Q, R], ["q", "r"]],
    ["in two pools, by the pools' gates", [Q, R], ["pool:default", "pool:other"]],
    ["one by its own gate, one by its pool's", [Q, R], ["q", "pool:other"]],
  ] as const)("%s: N is never exceeded, and each has its part", async (_, queues, gatesOf) => {
    const harness = sharing({ maxSys: 3 }, { queues, pools: POOLS }, [...gatesOf]);
    await submit(harness, "q", 1000);
    await submit(harness, "r", 1000);
    harness.start();
    await harness.run(20_000);
    expect(harness.gateway.peak).toBe(3);
    const [q, r] = [sentOf(harness, "q"), sentOf(harness, "r")];
    // Three at a time, a tenth of a second each, and the broker's round trips.
    expect(q + r).toBeGreaterThan(450);
    expect(Math.min(q, r) / (q + r)).toBeGreaterThan(0.3);
  });

  it("cost the broker no more than a few calls per message, however many they are", async () => {
    const queues = Array.from({ length: 12 }, (_, i) => queueSettings(`q${i}`));
    const names = queues.map(({ name }) => name);
    const harness = sharing({ maxSys: 4 }, { queues, workers: 32 }, names);
    for (const name of names) await submit(harness, name, 200);
    let asked = 0;
    let claimed = 0;
    const claim = harness.broker.claim.bind(harness.broker);
    harness.broker.claim = async (queue, request) => {
      asked++;
      const result = await claim(queue, request);
      claimed += result.claims.length;
      return result;
    };
    harness.start();
    await harness.run(20_000);
    const sent = harness.gateway.requests.length;
    expect(sent).toBeGreaterThan(500);
    expect(claimed).toBeLessThan(1.2 * sent);
    // Besides, each looks once a second for what expires.
    expect(asked - 20 * names.length).toBeLessThan(2 * sent);
  });

  it("bytes: small messages of one queue do not keep the large ones of another waiting for ever", async () => {
    const harness = sharing({ maxSys: 10_000, unit: "bytes" }, { queues: [Q, R], pools: POOLS });
    await submit(harness, "r", 5000, 500);
    harness.start();
    await harness.run(500);
    await submit(harness, "q", 5, 9000);
    await harness.run(20_000);
    expect(sentOf(harness, "q")).toBe(5);
    // And they go on themselves, without having come to an end.
    expect(sentOf(harness, "r")).toBeGreaterThan(1000);
    expect(sentOf(harness, "r")).toBeLessThan(5000);
  });
});
