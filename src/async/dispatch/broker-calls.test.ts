import { describe, expect, it } from "vitest";
import {
  answer,
  FakeCapacity,
  Harness,
  type HarnessOptions,
  OK,
  queueSettings,
} from "../../../test/support/dispatch/harness.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { DispatchGate, GateVerdict } from "../../base/plugin/gate.ts";

/** Calls that a dispatcher may make per second and queue when nothing happens: one for each message of a batch of eight at most. */
const FEW = 9;

type Counted = "claim" | "settle" | "moveDue" | "cancelled" | "reclaim" | "renew";

/** Counts the calls of the broker; ends a loop that would never end. */
function counted(harness: Harness): Record<Counted, number> {
  const calls = { claim: 0, settle: 0, moveDue: 0, cancelled: 0, reclaim: 0, renew: 0 };
  for (const name of Object.keys(calls) as Counted[]) {
    const original = harness.broker[name].bind(harness.broker) as (...args: unknown[]) => Promise<unknown>;
    (harness.broker as unknown as Record<string, unknown>)[name] = (...args: unknown[]) => {
      if (++calls[name] > 20_000) throw new Error(`${name} is called without end`);
      return original(...args);
    };
  }
  return calls;
}

const gate = (verdict: () => GateVerdict, over: Partial<DispatchGate> = {}): DispatchGate => ({
  ...{ capacities: [], budget: async () => 1, apply: verdict },
  ...over,
});
const REFUSED: GateVerdict = { kind: "refuse", reason: "quota_exhausted" };

interface Case {
  readonly options: (base: Harness) => Partial<HarnessOptions>;
  readonly before?: (harness: Harness) => Promise<void>;
  readonly during?: (harness: Harness) => void;
}

const two = { queues: [queueSettings("q"), queueSettings("r")] };
const many = async (harness: Harness): Promise<void> => {
  await harness.submitMany(50);
  if (harness.dispatcher.pools[0]!.consumers.length > 1) await harness.submitMany(50, { requestQueueName: "r" }, "r");
};
const shared = (base: Harness, over: object) => {
  const capacity = new FakeCapacity(base.clock, over);
  return { ...two, gates: { q: capacity.gate(), r: capacity.gate() } };
};
/** Each with a message that does not fit beside a small one that runs. */
const heavy = async (harness: Harness): Promise<void> => {
  harness.gateway.latency = 3_600_000;
  await harness.submit("small", { deadline: harness.in(50_000), payload: { prompt: "x" } });
  for (const requestQueueName of ["q", "r"])
    for (let i = 0; i < 5; i++)
      await harness.submit(`${requestQueueName}${i}`, {
        ...{ requestQueueName, deadline: harness.in(60_000) },
        payload: { prompt: "x".repeat(900) },
      });
};

const CASES: Readonly<Record<string, Case>> = {
  empty: { options: () => two },
  closed: { options: (base) => shared(base, { budget: 0 }), before: many },
  unreadable: { options: (base) => shared(base, { readable: false }), before: many },
  "full, N requests": {
    options: (base) => shared(base, { maxSys: 3 }),
    before: async (harness) => {
      harness.gateway.latency = 3_600_000;
      await many(harness);
    },
  },
  "all workers busy": {
    options: () => two,
    before: async (harness) => {
      harness.gateway.latency = 3_600_000;
      await many(harness);
    },
  },
  "full, bytes: the first message of two queues does not fit": {
    options: (base) => shared(base, { maxSys: 1000, unit: "bytes" }),
    before: heavy,
  },
  "full, bytes, a second capacity in front of the pool": {
    options: (base) => ({
      ...two,
      gates: {
        q: new FakeCapacity(base.clock, { maxSys: 100 }, "a").gate(),
        r: new FakeCapacity(base.clock, { maxSys: 100 }, "b").gate(),
        "pool:default": new FakeCapacity(base.clock, { maxSys: 1000, unit: "bytes" }, "c").gate(),
      },
    }),
    before: heavy,
  },
  "a queue's gate fails": {
    options: () => ({
      gates: {
        q: gate(() => {
          throw new SluiceError("BROKER_UNAVAILABLE", "away");
        }),
      },
    }),
    before: many,
  },
  "a pool's gate fails": {
    options: () => ({
      gates: {
        "pool:default": gate(() => {
          throw new SluiceError("BROKER_UNAVAILABLE", "away");
        }),
      },
    }),
    before: many,
  },
  unavailable: {
    options: () => two,
    before: many,
    during: (harness) => {
      harness.store.fault = "away";
    },
  },
  "a queue's gate lets wait": { options: () => ({ gates: { q: gate(() => ({ kind: "wait" })) } }), before: many },
  "a queue's gate lets wait what there is": {
    options: () => ({ gates: { q: gate(() => ({ kind: "wait" })) } }),
    before: (harness) => harness.submitMany(2),
  },
  "a pool's gate lets wait": {
    options: () => ({ gates: { "pool:default": gate(() => ({ kind: "wait" })) } }),
    before: many,
  },
  "a quota is exhausted, 50 messages": {
    options: () => ({ gates: { q: gate(() => REFUSED, { refusalKey: () => "" }) } }),
    before: many,
  },
  "a quota of the pool is exhausted, 50 messages": {
    options: () => ({ gates: { "pool:default": gate(() => REFUSED) } }),
    before: many,
  },
  "a gate's verdict never comes": {
    options: () => ({ gates: { q: gate(() => new Promise(() => {}) as never) } }),
    before: many,
  },
  "closed, and judges messages": {
    options: (base) => {
      const capacity = new FakeCapacity(base.clock, { budget: 0 });
      return { gates: { q: gate(() => ({ kind: "refuse" }), { capacities: [capacity], judgesWhenClosed: true }) } };
    },
    before: many,
  },
  "closed, and judges messages: lets pass": {
    options: (base) => {
      const capacity = new FakeCapacity(base.clock, { budget: 0 });
      return { gates: { q: gate(() => ({ kind: "continue" }), { capacities: [capacity], judgesWhenClosed: true }) } };
    },
    before: many,
  },
};

describe("calls of the broker while nothing can happen", () => {
  it.each(Object.entries(CASES))("%s", async (_, { options, before, during }) => {
    const base = new Harness();
    const harness = new Harness({ ...base, ...options(base) });
    // Of every length, so that what one queue is told never falls on the same moment of the other's round.
    const random = new SeededRandom(3);
    Object.defineProperty(harness.store, "latency", { get: () => 1 + random.below(20), set: () => {} });
    await Promise.all([before?.(harness), harness.run(1000)]);
    const calls = counted(harness);
    harness.start();
    await harness.run(2000);
    during?.(harness);
    await harness.run(3000);
    const from = { ...calls };
    await harness.run(10_000);
    const perSecond = Object.fromEntries(
      Object.entries(calls).map(([name, count]) => [name, (count - from[name as Counted]) / 10]),
    );
    const queues = harness.dispatcher.pools[0]!.consumers.length;

    for (const [name, count] of Object.entries(perSecond)) expect(count, name).toBeLessThanOrEqual(FEW * queues);
  });
});

describe("messages that wait for a gate", () => {
  it.each(["q", "pool:default"])("are asked about together: were they cancelled? (gate %s)", async (where) => {
    const harness = new Harness({ workers: 64, gates: { [where]: gate(() => ({ kind: "wait" })) } });
    await harness.submitMany(64);
    const calls = counted(harness);
    harness.start();
    await harness.run(10_000);
    expect(harness.dispatcher.claims).toBe(64);
    expect(calls.cancelled).toBeGreaterThan(5);
    expect(calls.cancelled).toBeLessThanOrEqual(10);
  });
});

describe("a backlog of a tenant whose quota is used up, larger than one round", () => {
  it.each(["q", "pool:default"])("is not claimed and given back without end (gate %s)", async (where) => {
    const harness = new Harness({ workers: 64, gates: { [where]: gate(() => REFUSED, { refusalKey: () => "" }) } });
    await harness.submitMany(12_000);
    harness.store.latency = 1;
    let claimed = 0;
    const claim = harness.broker.claim.bind(harness.broker);
    harness.broker.claim = async (queue, request) => {
      const result = await claim(queue, request);
      claimed += result.claims.length;
      return result;
    };
    harness.start();
    await harness.run(15_000);
    expect(harness.gateway.requests).toHaveLength(0);
    // A round lasts as long as what it holds is worth: the second has begun.
    expect(claimed).toBeGreaterThan(10_000);
    expect(claimed).toBeLessThan(21_000);
  });
});

describe("a broker that gives requests and takes no results", () => {
  it("is asked for no more than can be kept, and all ends when it takes them again", async () => {
    const harness = new Harness({ workers: 64 });
    await harness.submitMany(12_000);
    harness.gateway.latency = 10;
    const settle = harness.broker.settle.bind(harness.broker);
    harness.broker.settle = async (settlements) => settlements.map(() => ({ failed: "NOPERM no permission to write" }));
    harness.start();
    await harness.run(20_000);
    expect(harness.dispatcher.writer.pending).toBeGreaterThanOrEqual(10_000);
    expect(harness.dispatcher.writer.pending).toBeLessThan(10_000 + 2 * 64);
    harness.broker.settle = settle;
    await harness.run(10_000);
    expect(harness.results()).toHaveLength(12_000);
  });

  it("is not asked for what has expired either, while no more can be kept", async () => {
    const harness = new Harness({ workers: 64 });
    await harness.submitMany(14_000, { deadline: harness.in(15) });
    harness.gateway.latency = 10;
    const settle = harness.broker.settle.bind(harness.broker);
    harness.broker.settle = async (settlements) => settlements.map(() => ({ failed: "NOPERM no permission to write" }));
    harness.start();
    await harness.run(60_000);
    expect(harness.dispatcher.writer.pending).toBeLessThan(10_000 + 2 * 64);
    harness.broker.settle = settle;
    await harness.run(20_000);
    expect(harness.results()).toHaveLength(14_000);
  });

  it("is asked for no more than can be kept, counted in bytes", async () => {
    const harness = new Harness({ workers: 8 });
    await harness.submitMany(100);
    harness.gateway.latency = 10;
    const large = new Uint8Array(16 * 1024 * 1024);
    harness.gateway.reply = () => ({ ...OK, body: large }) as typeof OK;
    harness.broker.settle = async (settlements) => settlements.map(() => ({ failed: "NOPERM no permission to write" }));
    harness.start();
    await harness.run(20_000);
    expect(harness.dispatcher.writer.pending).toBeGreaterThanOrEqual(16);
    expect(harness.dispatcher.writer.pending).toBeLessThanOrEqual(16 + 2 * 8);
  });
});

describe("a broker that announces much and gives nothing", () => {
  it("is not asked for each announcement", async () => {
    const harness = new Harness();
    const calls = counted(harness);
    harness.broker.claim = () => {
      calls.claim++;
      return Promise.reject(new SluiceError("BROKER_UNAVAILABLE", "NOPERM"));
    };
    harness.start();
    for (let i = 0; i < 1000; i++) {
      await harness.submit(`m${i}`);
      await harness.run(1);
    }
    expect(calls.claim).toBeLessThan(30);
  });
});

describe("with an idle poll of an hour", () => {
  const IDLE = 3_600_000;

  it("retries come when they are due, also when the broker was away or an answer was lost meanwhile", async () => {
    for (const fault of ["away", "answer-lost"] as const) {
      const harness = new Harness({ pollInterval: IDLE });
      harness.gateway.reply = (_, attempt) => (attempt === 1 ? answer(500) : OK);
      harness.gateway.latency = 100;
      await harness.submit("a");
      harness.start();
      await harness.run(50);
      harness.store.fault = fault;
      await harness.run(8000);
      harness.store.fault = "none";
      await harness.run(12_000);
      expect(harness.resultOf("a")?.statusCode).toBe(200);
    }
  });

  it("what is due sooner than a look that is under way knows of is not forgotten", async () => {
    const harness = new Harness({ pollInterval: IDLE });
    const moveDue = harness.broker.moveDue.bind(harness.broker);
    let slow = true;
    harness.broker.moveDue = async () => {
      const next = await moveDue();
      if (slow) await new Promise<void>((resolve) => harness.clock.after(1000, resolve));
      return next;
    };
    harness.gateway.reply = (_, attempt) => (attempt === 1 ? answer(500) : OK);
    harness.start();
    await harness.submit("a");
    await harness.run(500);
    slow = false;
    await harness.run(10_000);
    expect(harness.resultOf("a")?.statusCode).toBe(200);
  });

  it("claims whose answers were lost are worked on when their leftovers are found", async () => {
    const harness = new Harness({ pollInterval: IDLE, leases: { claimTtl: 4000, reclaimInterval: 1000 } });
    harness.start();
    await harness.run(100);
    harness.store.fault = "answer-lost";
    void harness.submit("a").catch(() => {});
    harness.store.announce("q");
    await harness.run(300);
    harness.store.fault = "none";
    await harness.run(6000);
    expect(harness.resultOf("a")?.statusCode).toBe(200);
  });
});
