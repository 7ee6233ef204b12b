import { describe, expect, it } from "vitest";
import {
  answer,
  EPOCH,
  FakeCapacity,
  Harness,
  type HarnessOptions,
  queueSettings,
} from "../../../test/support/dispatch/harness.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import type { DispatchGate, GateMessage, GateVerdict, Reservations } from "../../base/plugin/gate.ts";
import { tierPriorityAdmission, waitOnRefuse } from "../gates/composite.ts";
import { LocalMaxConcurrency } from "../gates/local-max-concurrency.ts";
import { mergePolicy } from "./merge/policy-file.ts";

const CONTINUE: GateVerdict = { kind: "continue" };

/** A gate that only judges, and counts what it has reserved. */
class Judge implements DispatchGate {
  readonly capacities = [];
  reserved = 0;
  peak = 0;
  asked = 0;
  readonly #decide: (message: GateMessage) => GateVerdict | Promise<GateVerdict>;

  constructor(decide: (message: GateMessage) => GateVerdict | Promise<GateVerdict>) {
    this.#decide = decide;
  }

  async budget(): Promise<number> {
    return 1;
  }

  apply(message: GateMessage, reservations: Reservations): GateVerdict | Promise<GateVerdict> {
    this.asked++;
    this.reserved++;
    this.peak = Math.max(this.peak, this.reserved);
    reservations.add(() => this.reserved--);
    return this.#decide(message);
  }
}

/** Tenants in flight, at most `limit` each. */
class Quota implements DispatchGate {
  readonly capacities = [];
  readonly inFlight = new Map<string, number>();
  readonly limits: Readonly<Record<string, number>>;

  constructor(limits: Readonly<Record<string, number>>) {
    this.limits = limits;
  }

  async budget(): Promise<number> {
    return 1;
  }

  apply({ metadata }: GateMessage, reservations: Reservations): GateVerdict {
    const tenant = metadata["userid"] ?? "";
    const held = this.inFlight.get(tenant) ?? 0;
    if (held >= (this.limits[tenant] ?? Number.POSITIVE_INFINITY)) return { kind: "refuse", reason: "quota_exhausted" };
    this.inFlight.set(tenant, held + 1);
    reservations.add(() => this.inFlight.set(tenant, this.inFlight.get(tenant)! - 1));
    return CONTINUE;
  }

  refusalKey({ metadata }: GateMessage): string | undefined {
    return metadata["userid"];
  }
}

describe("a tenant that is out of quota (A-27, H-4)", () => {
  /** Milliseconds from submission to answer of tenant b's requests, one every 50 ms, sorted. */
  async function latencies(backlogOfA: number, limits: Record<string, number>): Promise<number[]> {
    const quota = new Quota(limits);
    const harness = new Harness({ gates: { q: quota }, workers: 16 });
    harness.gateway.latency = 100;
    await harness.submitMany(backlogOfA, { metadata: { userid: "a" }, deadline: harness.in(1000) }, "a");
    harness.start();
    const begun = new Map<string, number>();
    const ended = new Map<string, number>();
    for (let i = 0; i < 400; i++) {
      if (i < 300) {
        begun.set(`b${i}`, harness.clock.now());
        await harness.submit(`b${i}`, { metadata: { userid: "b" }, deadline: harness.in(2000) });
      }
      for (let step = 0; step < 10; step++) {
        await harness.run(5);
        for (const { id } of harness.results().slice(ended.size)) ended.set(id, harness.clock.now());
      }
    }
    expect([...ended.keys()].filter((id) => id.startsWith("b"))).toHaveLength(300);
    for (const [tenant, limit] of Object.entries(limits))
      expect(quota.inFlight.get(tenant) ?? 0).toBeLessThanOrEqual(limit);
    return [...begun].map(([id, at]) => ended.get(id)! - at).sort((x, y) => x - y);
  }

  it.each([
    ["with a quota of nothing", { a: 0 }],
    ["with a quota that it fills all the time", { a: 4 }],
  ])("%s does not make the next tenant of its queue wait: p99 under twice what it is alone", async (_, limits) => {
    const alone = (await latencies(0, limits))[296]!;
    const beside = (await latencies(3000, limits))[296]!;
    expect(alone).toBeLessThan(150);
    expect(beside).toBeLessThan(2 * alone);
  });

  it("has all its messages, in their order, when it has quota again", async () => {
    const quota = new Quota({ a: 1 });
    const harness = new Harness({ gates: { q: quota }, workers: 8 });
    harness.gateway.latency = 20;
    for (let i = 0; i < 40; i++)
      await harness.submit(`a${String(i).padStart(2, "0")}`, {
        metadata: { userid: "a" },
        deadline: harness.in(1000 + i),
      });
    harness.start();
    await harness.run(120_000);
    expect(harness.results()).toHaveLength(40);
    expect(harness.gateway.peak).toBe(1);
    expect(harness.gateway.ids).toEqual([...harness.gateway.ids].sort());
  });
});

describe("the slots of local-max-concurrency (A-26, H-34)", () => {
  it.each([
    ["the queue", "q", "classifying"],
    ["the queue", "q", "blocking"],
    ["the pool", "pool:default", "classifying"],
    ["the pool", "pool:default", "blocking"],
  ])("at %s (%s, %s) are all used with batch_size 10, and never one more", async (_, place, mode) => {
    const gate = new LocalMaxConcurrency(100, mode === "blocking");
    const harness = new Harness({ gates: { [place]: gate }, workers: 200, batchCap: 10 });
    harness.gateway.latency = 400;
    await harness.submitMany(2000);
    harness.start();
    await harness.run(3000);
    expect(harness.gateway.peak).toBe(100);
    expect(harness.gateway.running).toBe(100);
    // 2,000 of 400 ms by a hundred slots are eight seconds: whoever leaves is followed at once.
    await harness.run(5500);
    expect(harness.results()).toHaveLength(2000);
    expect(harness.gateway.peak).toBe(100);
    expect(await gate.budget()).toBe(1);
  });

  it.each(["q", "pool:default"])(
    "who waits in place at %s still ends at its deadline, by a cancel, and by a stop (A-38, A-48, H-8)",
    async (place) => {
      const gate = new LocalMaxConcurrency(1, true);
      const harness = new Harness({ gates: { [place]: gate }, workers: 8 });
      harness.gateway.latency = 10_000_000;
      await harness.submit("first", { deadline: harness.in(100_000) });
      harness.start();
      await harness.run(100);
      await harness.submit("late", { deadline: harness.in(5) });
      await harness.submit("cancelled", { deadline: harness.in(50_000) });
      await harness.submit("stopped", { deadline: harness.in(60_000) });
      await harness.run(1000);
      await harness.producer.cancelRequests(["cancelled"]);
      await harness.run(9000);
      expect(harness.resultOf("late")?.errorCode).toBe("DEADLINE_EXCEEDED");
      expect(harness.resultOf("cancelled")?.errorCode).toBe("CANCELLED");
      const stopped = harness.dispatcher.stop(1000);
      await harness.run(3000);
      await stopped;
      expect(harness.store.leases.size).toBe(0);
      expect(harness.store.queue("q").size).toBe(2);
    },
  );
});

describe("`wait` at the queue's gate (A-24, H-6)", () => {
  it("parks a message without dispatching it, counts its wait, and keeps its lease alive", async () => {
    let open = false;
    const gate = new Judge(() => (open ? CONTINUE : { kind: "wait" }));
    const harness = new Harness({ gates: { q: gate }, workers: 2, leases: { claimTtl: 6000, reclaimInterval: 1000 } });
    await harness.submitMany(6);
    harness.start();
    await harness.run(60_000);
    expect(harness.gateway.requests).toHaveLength(0);
    // No more are taken from others than could leave.
    expect(harness.dispatcher.claims).toBe(2);
    expect(harness.metric("claims_reclaimed_total")).toBeNaN();
    // Once per message that waits, not per look.
    expect(harness.metric("gate_decisions_total", 'reason="gate_closed"')).toBe(2);
    expect(gate.reserved).toBe(0);
    open = true;
    await harness.run(2000);
    expect(harness.results().map(({ statusCode }) => statusCode)).toEqual(Array(6).fill(200));
    expect(gate.reserved).toBe(0);
  });

  it("wait-on-refuse around a quota holds back messages over the quota", async () => {
    const gate = waitOnRefuse(new Quota({ a: 1 }));
    const harness = new Harness({ gates: { q: gate }, workers: 8 });
    harness.gateway.latency = 100;
    await harness.submitMany(20, { metadata: { userid: "a" } });
    harness.start();
    await harness.run(30_000);
    expect(harness.gateway.peak).toBe(1);
    expect(harness.results()).toHaveLength(20);
  });

  it("tier-priority-admission lets reserved work wait, drops interactive overflow with 429, and takes the rest back", async () => {
    const clock = new VirtualClock(EPOCH);
    let full = true;
    const inner = new Judge(() => (full ? { kind: "refuse" } : CONTINUE));
    const harness = new Harness({ clock, gates: { q: tierPriorityAdmission(inner, "tier") }, workers: 8 });
    const labelled = (classification: string, tier: string) => ({ labels: { classification, tier } });
    await harness.submit("reserved", labelled("reserved", "batch"));
    await harness.submit("interactive", labelled("overflow", "interactive"));
    await harness.submit("batch", labelled("overflow", "batch"));
    harness.start();
    await harness.run(10_000);
    expect(harness.results()).toHaveLength(1);
    expect(harness.resultOf("interactive")).toMatchObject({ statusCode: 429, errorCode: "GATE_DROPPED" });
    expect(harness.metric("gate_decisions_total", 'reason="dropped"')).toBe(1);
    full = false;
    await harness.run(3000);
    expect(harness.results()).toHaveLength(3);
    expect(inner.reserved).toBe(0);
  });
});

describe("a message that waited at the queue's gate and may go", () => {
  it("keeps waiting while N has no room, and holds no place in the gate (A-57)", async () => {
    const clock = new VirtualClock(EPOCH);
    const capacity = new FakeCapacity(clock, { budget: 1, maxSys: 1 });
    let open = true;
    const judge = new Judge(() => (open ? CONTINUE : { kind: "wait" }));
    const gate = { ...capacity.gate(), apply: judge.apply.bind(judge) };
    const harness = new Harness({
      clock,
      gates: { q: gate, r: gate },
      queues: [queueSettings("q"), queueSettings("r")],
    });
    harness.gateway.latency = 20_000;
    open = false;
    await harness.submitMany(3, { requestQueueName: "r" }, "r");
    harness.start();
    await harness.run(1000);
    // The other queue takes the only place, and then the gate lets everybody pass.
    open = true;
    await harness.submit("first", { deadline: harness.in(50) });
    await harness.run(15_000);
    expect(harness.gateway.running).toBe(1);
    expect(judge.reserved).toBe(1);
    await harness.run(120_000);
    expect(harness.results()).toHaveLength(4);
    expect(judge.reserved).toBe(0);
    expect(harness.gateway.peak).toBe(1);
  });
});

describe("a pool's gate that is closed for three request timeouts (A-29, H-5)", () => {
  const closed: readonly (readonly [string, () => GateVerdict | Promise<GateVerdict>])[] = [
    ["waits", () => ({ kind: "wait" })],
    ["refuses", () => ({ kind: "refuse" })],
    ["refuses for quota", () => ({ kind: "refuse", reason: "quota_exhausted" })],
  ];
  it.each(closed)("and %s: no message ends, and all go after it opens", async (_, verdict) => {
    let open = false;
    const gate = new Judge(() => (open ? CONTINUE : verdict()));
    const harness = new Harness({ gates: { "pool:default": gate }, requestTimeout: 20_000, workers: 4 });
    await harness.submitMany(40, { deadline: harness.in(100_000) });
    harness.start();
    await harness.run(60_000);
    expect(harness.results()).toHaveLength(0);
    expect(harness.gateway.requests).toHaveLength(0);
    expect(gate.reserved).toBe(0);
    open = true;
    await harness.run(15_000);
    expect(harness.results().map(({ statusCode }) => statusCode)).toEqual(Array(40).fill(200));
    expect(harness.metric("exceeded_deadline_requests_total")).toBeNaN();
  });

  it("and a message that waits there ends once, at its deadline", async () => {
    const gate = new Judge(() => ({ kind: "wait" }));
    const harness = new Harness({ gates: { "pool:default": gate }, requestTimeout: 2000, workers: 4 });
    await harness.submitMany(10, { deadline: harness.in(30) });
    harness.start();
    await harness.run(35_000);
    expect(harness.results().map(({ errorCode }) => errorCode)).toEqual(Array(10).fill("DEADLINE_EXCEEDED"));
    expect(gate.reserved).toBe(0);
  });
});

describe("reservations come back (A-57)", () => {
  const ends: readonly (readonly [string, (harness: Harness) => Promise<void>])[] = [
    ["a result", async () => {}],
    [
      "a failure",
      async ({ gateway }) => {
        gateway.reply = () => answer(404);
      },
    ],
    [
      "a retry",
      async ({ gateway }) => {
        gateway.reply = () => answer(503);
      },
    ],
    [
      "an answer that never comes",
      async ({ gateway }) => {
        gateway.latency = 10_000_000;
      },
    ],
    [
      "a stop",
      async (harness) => {
        harness.gateway.latency = 10_000_000;
        await harness.run(1000);
        const stopped = harness.dispatcher.stop(10);
        await harness.run(1000);
        await stopped;
      },
    ],
    [
      "a broker that is away",
      async (harness) => {
        harness.gateway.latency = 100;
        await harness.run(50);
        harness.store.fault = "away";
        await harness.run(5000);
      },
    ],
  ];
  it.each(ends)("with %s, at the queue's gate and at the pool's", async (_, act) => {
    for (const place of ["q", "pool:default"]) {
      const gate = new Judge(() => CONTINUE);
      const harness = new Harness({ gates: { [place]: gate }, workers: 3, requestTimeout: 4000 });
      harness.gateway.latency = 20;
      await harness.submitMany(3, { deadline: harness.in(8) });
      harness.start();
      await act(harness);
      await harness.run(12_000);
      expect(gate.asked).toBeGreaterThan(0);
      expect(gate.reserved).toBe(0);
      expect(gate.peak).toBeLessThanOrEqual(3);
    }
  });

  it.each([
    ["refuse", { kind: "refuse" }],
    ["refuse for quota", { kind: "refuse", reason: "quota_exhausted" }],
    ["wait", { kind: "wait" }],
    ["drop", { kind: "drop" }],
  ] as const)("when the gate says %s after it had reserved", async (_, verdict) => {
    for (const place of ["q", "pool:default"]) {
      const gate = new Judge(() => verdict);
      const harness = new Harness({ gates: { [place]: gate } });
      await harness.submitMany(20, { deadline: harness.in(20) });
      harness.start();
      for (let i = 0; i < 50; i++) {
        await harness.run(500);
        expect(gate.reserved).toBe(0);
      }
      expect(harness.results()).toHaveLength(20);
      expect(harness.gateway.requests).toHaveLength(0);
    }
  });

  it("of the queue's gate, and its part of N, while the pool's gate holds the message back for want of quota", async () => {
    const clock = new VirtualClock(EPOCH);
    const capacity = new FakeCapacity(clock, { maxSys: 4 });
    const first = new Judge(() => CONTINUE);
    const second = new Judge(() => ({ kind: "refuse", reason: "quota_exhausted" }));
    const gate = { ...capacity.gate(), apply: first.apply.bind(first) };
    const harness = new Harness({ clock, gates: { q: gate, "pool:default": second } });
    await harness.submitMany(5);
    harness.start();
    await harness.run(500);
    // Others may have both, as long as these wait.
    expect(harness.dispatcher.claims).toBe(5);
    expect([first.reserved, second.reserved]).toEqual([0, 0]);
    expect([...harness.dispatcher.capacities.values()].map(({ own }) => own)).toEqual([0]);
  });

  it("of the queue's gate when the pool's drops or fails afterwards, and of both when it is cancelled there", async () => {
    for (const verdict of ["drop", "fail", "wait"]) {
      const first = new Judge(() => CONTINUE);
      const second = new Judge(() => {
        if (verdict === "fail") throw new Error("no such quota");
        return verdict === "drop" ? { kind: "drop" } : { kind: "wait" };
      });
      const harness = new Harness({ gates: { q: first, "pool:default": second } });
      await harness.submitMany(5);
      harness.start();
      await harness.run(2000);
      await harness.producer.cancelRequests(["m0", "m1", "m2", "m3", "m4"]);
      await harness.run(3000);
      expect(harness.results()).toHaveLength(5);
      expect([first.reserved, second.reserved]).toEqual([0, 0]);
    }
  });
});

describe("pools beside each other (A-67)", () => {
  const stuck: readonly (readonly [string, HarnessOptions, (harness: Harness) => void])[] = [
    ["its gate is closed", { gates: { "pool:default": new Judge(() => ({ kind: "wait" })) } }, () => {}],
    [
      "its gate does not answer",
      { gates: { "pool:default": new Judge(() => new Promise<GateVerdict>(() => {})) } },
      () => {},
    ],
    [
      "the gate of its queue does not answer",
      { gates: { q: new Judge(() => new Promise<GateVerdict>(() => {})) } },
      () => {},
    ],
    [
      "its gateway does not answer",
      {},
      ({ gateway }) => {
        const { send } = gateway;
        gateway.send = (request, signal) => {
          gateway.latency = request.body.toString().includes("stuck") ? 10_000_000 : 50;
          return send.call(gateway, request, signal);
        };
      },
    ],
  ];
  it.each(stuck)("%s: the other one works at its full speed", async (_, options, prepare) => {
    const queues = [queueSettings("q"), queueSettings("r", { workerPoolId: "other" })];
    const pools = ["default", "other"].map((id) => ({ id, workers: 4, gate: undefined }));
    const harness = new Harness({ queues, pools, ...options });
    harness.gateway.latency = 50;
    prepare(harness);
    await harness.submitMany(50, { payload: { prompt: "stuck" } });
    await harness.submitMany(400, { requestQueueName: "r" }, "r");
    harness.start();
    // 400 requests of 50 ms by four workers are five seconds.
    await harness.run(5500);
    expect(harness.results().filter(({ id }) => id.startsWith("r"))).toHaveLength(400);
  });
});

describe("lanes (A-69)", () => {
  const tiers = mergePolicy(parseDocument('{"type":"tier-priority"}', { file: "policy" }), new SeededRandom(1));
  const queues = [
    queueSettings("batch", { labels: { tier: "batch" } }),
    queueSettings("urgent", { labels: { tier: "interactive" } }),
  ];

  it("serve the urgent queue first when the workers are what is short", async () => {
    const harness = new Harness({ queues, policy: tiers, workers: 4 });
    harness.gateway.latency = 100;
    await harness.submitMany(200, { requestQueueName: "batch" }, "b");
    await harness.submitMany(100, { requestQueueName: "urgent" }, "u");
    harness.start();
    await harness.run(2600);
    const order = harness.gateway.ids.map((id) => id[0]);
    expect(order.slice(0, 100).filter((queue) => queue === "u").length).toBeGreaterThanOrEqual(96);
  });

  it.each(["the gate of both queues", "the pool's gate"])(
    "serve the urgent queue first when the N of %s is what is short, and leave the other what is over",
    async (place) => {
      const clock = new VirtualClock(EPOCH);
      const gate = new FakeCapacity(clock, { budget: 0.7, baseline: 0.1, maxSys: 10 }).gate();
      const gates = place === "the pool's gate" ? { "pool:default": gate } : { batch: gate, urgent: gate };
      const harness = new Harness({ clock, queues, policy: tiers, workers: 64, gates });
      const { send } = harness.gateway;
      harness.gateway.send = (request, signal) => {
        harness.gateway.latency = 450 + ((harness.gateway.requests.length * 37) % 101);
        return send.call(harness.gateway, request, signal);
      };
      const submitted = [
        harness.submitMany(200, { requestQueueName: "batch" }, "b"),
        harness.submitMany(100, { requestQueueName: "urgent" }, "u"),
      ];
      harness.store.latency = 2;
      await harness.run(10);
      await Promise.all(submitted);
      harness.start();
      await harness.run(12_000);
      const order = harness.gateway.ids.map((id) => id[0]);
      // Six at a time for twelve seconds; the first six may be anybody's.
      expect(order.length).toBeGreaterThan(130);
      expect(order.slice(0, 106).filter((queue) => queue === "u").length).toBeGreaterThanOrEqual(98);
      expect(harness.gateway.peak).toBe(6);
      // An urgent message that comes later is the next to go.
      harness.store.latency = 0;
      await harness.submit("u-later", { requestQueueName: "urgent" });
      await harness.run(700);
      expect(harness.results().some(({ id }) => id === "u-later")).toBe(true);
    },
  );

  it("do not keep what expires or is cancelled in them from its end while the workers are busy (A-38, A-48)", async () => {
    const harness = new Harness({ queues, policy: tiers, workers: 2 });
    harness.gateway.latency = 10_000_000;
    await harness.submitMany(2, { requestQueueName: "batch" });
    harness.start();
    await harness.run(100);
    await harness.submitMany(2, { requestQueueName: "batch", deadline: harness.in(5) }, "late");
    await harness.submitMany(2, { requestQueueName: "urgent", deadline: harness.in(6) }, "soon");
    await harness.run(10_000);
    expect(harness.results().map(({ errorCode }) => errorCode)).toEqual(Array(4).fill("DEADLINE_EXCEEDED"));
  });
});

describe("figures of gates", () => {
  it("a closed queue counts one decision per look, not one per message (368 / 371)", async () => {
    const clock = new VirtualClock(EPOCH);
    const capacity = new FakeCapacity(clock, { budget: 0 });
    const harness = new Harness({ clock, gates: { q: capacity.gate() } });
    await harness.submitMany(1000);
    harness.start();
    await harness.run(10_000);
    const counted = harness.metric("gate_decisions_total", 'reason="gate_closed"');
    expect(counted).toBeGreaterThanOrEqual(8);
    expect(counted).toBeLessThanOrEqual(12);
  });

  it("a closed gate in front of an empty queue counts nothing", async () => {
    const clock = new VirtualClock(EPOCH);
    const harness = new Harness({ clock, gates: { q: new FakeCapacity(clock, { budget: 0 }).gate() } });
    harness.start();
    await harness.run(10_000);
    expect(harness.metric("gate_decisions_total", 'reason="gate_closed"')).toBe(0);
  });
});
