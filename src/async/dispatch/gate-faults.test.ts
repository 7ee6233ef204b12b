import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeCapacity, Harness, queueSettings } from "../../../test/support/dispatch/harness.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { parseDocument } from "../../base/document/parse.ts";
import type { DispatchGate, GateVerdict, Reservations } from "../../base/plugin/gate.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { LocalMaxConcurrency } from "../gates/local-max-concurrency.ts";
import { mergePolicy } from "./merge/policy-file.ts";

const CONTINUE: GateVerdict = { kind: "continue" };
const open = (over: Partial<DispatchGate> = {}): DispatchGate => ({
  ...{ capacities: [], budget: async () => 1, apply: () => CONTINUE },
  ...over,
});
const fail = (): never => {
  throw new Error("a mistake in a gate");
};
/** What plain JavaScript may return where the types forbid it. */
const anything = (value: unknown) => value as never;

/** Gates with one mistake each, as somebody may write them. */
const FAULTY: Readonly<Record<string, DispatchGate>> = {
  "throws a text": open({
    apply: () => {
      throw "no error object";
    },
  }),
  "rejects with nothing": open({ apply: () => Promise.reject(undefined) }),
  "gives no verdict": open({ apply: () => anything(undefined) }),
  "gives null": open({ apply: () => anything(null) }),
  "promises no verdict": open({ apply: () => Promise.resolve(anything(undefined)) }),
  "gives an unknown verdict": open({ apply: () => anything({ kind: "maybe" }) }),
  "promises an unknown verdict": open({ apply: async () => anything({ kind: "maybe" }) }),
  "gives a promise of its own kind that fails": open({
    // biome-ignore lint/suspicious/noThenProperty: that is what it is about
    apply: () => anything({ then: (_: unknown, reject: (error: Error) => void) => reject(new Error("later")) }),
  }),
  "drops with a payload that is not a text": open({
    apply: () => ({ kind: "drop", result: anything({ payload: 7 }) }),
  }),
  "refuses, and its key throws": open({ apply: () => ({ kind: "refuse" }), refusalKey: fail }),
  "its key throws": open({ refusalKey: fail }),
  "its budget throws": open({ budget: fail }),
  "its budget rejects": open({ budget: () => Promise.reject(new Error("no")) }),
  "its budget is no promise": open({ budget: () => anything(0.5) }),
  "what it reserved cannot be released": open({
    apply: (_, reservations) => {
      reservations.add(fail);
      return CONTINUE;
    },
  }),
  "what it reserved is released by a promise that fails": open({
    apply: (_, reservations) => {
      reservations.add((async () => fail()) as () => void);
      return CONTINUE;
    },
  }),
  "fails with reservations that cannot be released": open({
    apply: (_, reservations) => {
      reservations.add(fail);
      return fail();
    },
  }),
  "its capacity throws": open({ capacities: [{ key: "k", read: fail }] }),
  "its capacity says nothing": open({ capacities: [{ key: "k", read: () => anything(undefined) }] }),
  "its capacity is NaN": open({
    capacities: [{ key: "k", read: async () => anything({ readable: true, budget: Number.NaN, sampleTime: 1 }) }],
  }),
};

describe("a gate with a mistake in it", () => {
  const escaped: unknown[] = [];
  const note = (reason: unknown): void => void escaped.push(reason);
  beforeEach(() => {
    escaped.length = 0;
    process.on("unhandledRejection", note);
    process.on("uncaughtException", note);
  });
  afterEach(() => {
    process.off("unhandledRejection", note);
    process.off("uncaughtException", note);
  });

  it.each(
    Object.entries(FAULTY).flatMap(([name, gate]) => [
      ["q", name, gate] as const,
      ["pool:default", name, gate] as const,
    ]),
  )(
    "at %s: %s - ends neither the process nor the queue beside it, and its messages end at most once",
    async (where, _, gate) => {
      const queues = [queueSettings("q"), queueSettings("r", { workerPoolId: where === "q" ? "default" : "other" })];
      const pools = ["default", "other"].map((id) => ({ id, workers: 4, gate: undefined }));
      const harness = new Harness({ queues, pools, gates: { [where]: gate } });
      await harness.submitMany(20, { deadline: harness.in(20) });
      await harness.submitMany(20, { requestQueueName: "r" }, "r");
      harness.start();
      await harness.run(3000);
      expect(harness.results().filter(({ id }) => id.startsWith("r"))).toHaveLength(20);
      await harness.run(30_000);
      // With or without the gate's say: after its deadline every message has one result.
      expect(new Set(harness.results().map(({ id }) => id)).size).toBe(40);
      expect(harness.results()).toHaveLength(40);
      expect(harness.metric("results_fenced_total")).toBeNaN();
      expect(harness.metric("claims_active")).toBe(0);
      let stopped = false;
      void harness.dispatcher.stop(1000).then(() => {
        stopped = true;
      });
      await harness.run(6000);
      expect(stopped).toBe(true);
      await new Promise((resolve) => setImmediate(resolve));
      expect(escaped).toEqual([]);
    },
  );
});

it.each([
  ["q", "the gate of queue q"],
  ["pool:default", "the gate of pool default"],
])("a reservation that cannot be released at %s is a warning that names the gate", async (where, name) => {
  const warned: unknown[][] = [];
  const log: Logger = { ...silentLogger, warn: (...line) => void warned.push(line) };
  const harness = new Harness({ gates: { [where]: FAULTY["what it reserved cannot be released"]! }, log });
  await harness.submitMany(1);
  harness.start();
  await harness.run(3000);
  expect(warned).toContainEqual([
    expect.objectContaining({ gate: name }),
    "could not release a gate reservation; the gate may count requests that have ended",
  ]);
});

describe("a gate that does not answer", () => {
  const never = open({ apply: () => new Promise<GateVerdict>(() => {}) });

  it.each(["q", "pool:default"])("at %s: messages end at their deadline, and a stop gives them back", async (where) => {
    const harness = new Harness({ gates: { [where]: never }, workers: 4 });
    await harness.submitMany(2, { deadline: harness.in(10) }, "early");
    await harness.submitMany(6, { deadline: harness.in(1000) });
    harness.start();
    await harness.run(13_000);
    expect(harness.results().map(({ errorCode }) => errorCode)).toEqual(Array(2).fill("DEADLINE_EXCEEDED"));
    await harness.producer.cancelRequests(["m0"]);
    await harness.run(3000);
    expect(harness.resultOf("m0")?.errorCode).toBe("CANCELLED");
    let stopped = false;
    void harness.dispatcher.stop(60_000).then(() => {
      stopped = true;
    });
    await harness.run(500);
    expect(stopped).toBe(true);
    expect(harness.store.queue("q").size).toBe(5);
    expect(harness.store.leases.size).toBe(0);
  });

  it("does not hold up the other queues of its pool", async () => {
    const queues = [queueSettings("q"), queueSettings("r")];
    const harness = new Harness({ queues, gates: { q: never }, workers: 4 });
    await harness.submitMany(20);
    harness.gateway.latency = 100;
    harness.start();
    await harness.run(100);
    await harness.submitMany(60, { requestQueueName: "r" }, "r");
    // On all four workers, but for the moment in which the gate was given a chance to answer.
    await harness.run(2100);
    expect(harness.results()).toHaveLength(60);
  });

  it("keeps nothing that it reserves for a message that has ended", async () => {
    let reserved = 0;
    const late: (() => void)[] = [];
    const slow = open({
      apply: (_: unknown, reservations: Reservations) =>
        new Promise<GateVerdict>((resolve) =>
          late.push(() => {
            reserved++;
            reservations.add(() => void reserved--);
            resolve(CONTINUE);
          }),
        ),
    });
    for (const where of ["q", "pool:default"]) {
      const harness = new Harness({ gates: { [where]: slow } });
      await harness.submitMany(3, { deadline: harness.in(5) });
      harness.start();
      await harness.run(10_000);
      expect(harness.results()).toHaveLength(3);
      for (const answer of late.splice(0)) answer();
      await harness.run(1000);
      expect(reserved).toBe(0);
      expect(harness.results()).toHaveLength(3);
      expect(harness.gateway.requests).toHaveLength(0);
    }
  });
});

describe("a gate in which messages wait in place", () => {
  it("lets the other queues of the pool have the workers meanwhile", async () => {
    const queues = [queueSettings("q"), queueSettings("r")];
    const harness = new Harness({ queues, gates: { q: new LocalMaxConcurrency(1, true) }, workers: 8 });
    harness.gateway.latency = 1000;
    await harness.submitMany(30);
    harness.start();
    await harness.run(100);
    await harness.submitMany(40, { requestQueueName: "r" }, "r");
    await harness.run(6500);
    expect(harness.results().filter(({ id }) => id.startsWith("r")).length).toBe(40);
    expect(harness.results().filter(({ id }) => id.startsWith("m")).length).toBeGreaterThanOrEqual(5);
    expect(harness.gateway.peak).toBeLessThanOrEqual(8);
  });
});

describe("a line that cannot stop", () => {
  it("keeps nothing of what the others have claimed", async () => {
    const queues = [queueSettings("q"), queueSettings("r")];
    // Its lanes hold more than the workers have.
    const lanes = parseDocument('{"type":"tier-priority"}', { file: "policy" });
    const policy = mergePolicy(lanes, new SeededRandom(1));
    const harness = new Harness({ queues, policy, workers: 2 });
    harness.gateway.latency = 3_600_000;
    await harness.submitMany(4);
    harness.start();
    await harness.run(100);
    const claim = harness.broker.claim.bind(harness.broker);
    harness.broker.claim = (queue, request) => (queue.name === "r" ? new Promise(() => {}) : claim(queue, request));
    await harness.submitMany(1, { requestQueueName: "r" }, "r");
    await harness.run(3000);
    void harness.dispatcher.stop(60_000);
    await harness.run(1000);
    // All but the two in flight.
    expect(harness.store.queue("q").size).toBe(2);
    expect(harness.store.leases.size).toBe(2);
  });
});

describe("what waited at a pool's gate", () => {
  it("leaves only if its queue's metric still says so (A-9)", async () => {
    const base = new Harness();
    const capacity = new FakeCapacity(base.clock, { budget: 1, maxSys: 50 });
    let waiting = true;
    const gate = open({ apply: () => (waiting ? { kind: "wait" } : CONTINUE) });
    const harness = new Harness({ ...base, gates: { q: capacity.gate(), "pool:default": gate }, workers: 4 });
    await harness.submitMany(4);
    harness.start();
    await harness.run(5530);
    capacity.sample({ budget: 0 });
    waiting = false;
    await harness.run(2000);
    expect(harness.gateway.requests).toHaveLength(0);
    expect(harness.store.queue("q").size).toBe(4);
  });
});

describe("a lease that could not be renewed in time", () => {
  it("is not begun with: somebody else may have the message by now", async () => {
    let waiting = true;
    const gate = open({ apply: () => (waiting ? { kind: "wait" } : CONTINUE) });
    const harness = new Harness({
      gates: { "pool:default": gate },
      leases: { claimTtl: 6000, reclaimInterval: 100_000 },
      workers: 4,
    });
    await harness.submitMany(2);
    harness.start();
    await harness.run(500);
    harness.broker.renew = () => Promise.reject(new Error("no answer"));
    // Another process, which the broker can be reached from, has them by now.
    harness.store.leases.clear();
    await harness.run(7000);
    waiting = false;
    await harness.run(100);
    expect(harness.gateway.requests).toHaveLength(0);
  });
});
