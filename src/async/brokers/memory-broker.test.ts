import { afterEach, describe, expect, it } from "vitest";
import { brokerCases, queueOf } from "../../../test/support/brokers/broker.cases.ts";
import { MemoryBroker } from "../../../test/support/brokers/memory/broker.ts";
import { MemoryInspector } from "../../../test/support/brokers/memory/inspector.ts";
import { MemoryProducer } from "../../../test/support/brokers/memory/producer.ts";
import { MemoryStore } from "../../../test/support/brokers/memory/store.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Claim } from "./broker.ts";
import { errorResult } from "./messages/result.ts";

const EPOCH = 1_800_000_000_000;

brokerCases("memory", async (settings) => {
  const clock = new VirtualClock(EPOCH);
  const store = new MemoryStore(clock);
  const random = new SeededRandom(1);
  return {
    broker: new MemoryBroker(settings, store),
    peer: () => new MemoryBroker(settings, store),
    producer: (requestQueueName, resultQueueName) =>
      new MemoryProducer({ requestQueueName, resultQueueName }, store, random),
    inspector: new MemoryInspector(store),
    inject: async (queueName, entry, score) => store.add(queueName, entry, score),
    injectResult: async (queueName, entry) => store.pushResult(queueName, entry),
    results: async (queueName) => store.results(queueName),
    wipe: async () => store.wipe(),
    now: () => clock.wall(),
    setClock: (ms) => clock.set(ms),
    async until(what, ms, probe) {
      for (let step = 0; step < 20; step++) {
        if (await probe()) return;
        await clock.advanceAsync(ms / 20);
      }
      if (!(await probe())) throw new Error(`${what}: not within ${ms} ms`);
    },
    close: async () => {},
  };
});

describe("the memory store as a server that fails", () => {
  const clock = new VirtualClock(EPOCH);
  const q = queueOf("q");
  const leases = { claimTtl: 1000, reclaimInterval: 100, maxAttempts: 0 };
  const settings = { queues: [q], resultQueueName: "results", leases };
  const none: ReadonlySet<string> = new Set();
  let store = new MemoryStore(clock);
  let broker = new MemoryBroker(settings, store);
  const submit = (id: string): Promise<void> =>
    new MemoryProducer({ requestQueueName: "q", resultQueueName: "results" }, store, new SeededRandom(1)).submitRequest(
      {
        id,
        deadline: Math.floor(clock.wall() / 1000) + 600,
        payload: {},
      },
    );
  const claim = async (): Promise<readonly Claim[]> => (await broker.claim(q, { max: 10, expired: 0 })).claims;

  afterEach(() => {
    store = new MemoryStore(clock);
    broker = new MemoryBroker(settings, store);
  });

  it("away: everything is refused and nothing done", async () => {
    await submit("a");
    store.fault = "away";
    await expect(claim()).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    await expect(broker.check()).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    await expect(submit("b")).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    store.fault = "none";
    expect(await claim()).toHaveLength(1);
  });

  it("a claim whose answer was lost is queued again at once, and that is no lost lease", async () => {
    await submit("a");
    store.fault = "answer-lost";
    await expect(claim()).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    store.fault = "none";
    expect(await claim()).toEqual([]);
    await broker.reclaim(none);
    expect((await claim())[0]!.message.routing.lostLeases).toBe(0);
  });

  it("a claim that was answered stays, also when the one who asks does not know it yet", async () => {
    await submit("a");
    expect(await claim()).toHaveLength(1);
    await broker.reclaim(none);
    expect(await claim()).toEqual([]);
  });

  it("a settlement whose answer was lost can be repeated", async () => {
    await submit("a");
    const [a] = await claim();
    const settlement = { kind: "result", claim: a!, result: errorResult("a", "CANCELLED", "cancelled") } as const;
    store.fault = "answer-lost";
    await expect(broker.settle([settlement])).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    store.fault = "none";
    expect(await broker.settle([settlement])).toEqual(["fenced"]);
    expect(store.results("results")).toHaveLength(1);
  });

  it("answers take as long as they are told to; what was asked for happens at once", async () => {
    await submit("a");
    store.latency = 50;
    let answered = false;
    const asked = claim().then(() => {
      answered = true;
    });
    expect(store.queue("q").size).toBe(0);
    await clock.advanceAsync(49);
    expect(answered).toBe(false);
    await clock.advanceAsync(1);
    await asked;
  });

  it("is full at its limit, whatever the entries have become, and empties again", async () => {
    store = new MemoryStore(clock, 2);
    broker = new MemoryBroker(settings, store);
    await submit("a");
    await submit("b");
    await expect(submit("c")).rejects.toThrow("the store is full: 2 entries");
    const [a] = await claim();
    await broker.settle([{ kind: "result", claim: a!, result: errorResult("a", "CANCELLED", "cancelled") }]);
    await expect(submit("c")).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    expect(store.takeResult("results")).toBeDefined();
    await submit("c");
  });
});
