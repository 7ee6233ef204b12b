import { describe, expect, it, vi } from "vitest";
import { answer, FakeCapacity, Harness, queueSettings } from "../../../test/support/dispatch/harness.cases.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { DispatchGate } from "../../base/plugin/gate.ts";
import type { RequestTransform } from "./transforms/transform.ts";

describe("Dispatcher", () => {
  it("brings every message to one result with the gateway's answer", async () => {
    const harness = new Harness();
    await harness.submitMany(100);
    harness.start();
    await harness.run(100);
    expect(harness.results()).toHaveLength(100);
    expect(new Set(harness.results().map(({ id }) => id)).size).toBe(100);
    expect(harness.results()[0]).toMatchObject({ statusCode: 200, errorCode: "" });
    expect(harness.dispatcher.claims).toBe(0);
    expect(harness.metric("request_total")).toBe(100);
    expect(harness.metric("successful_requests_total")).toBe(100);
    expect(harness.metric("claims_active")).toBe(0);
  });

  it("claims a message that is submitted to an idle queue at once, not at the next poll", async () => {
    const harness = new Harness();
    harness.start();
    await harness.run(5000);
    await harness.submit("a");
    await harness.run(5);
    expect(harness.resultOf("a")?.statusCode).toBe(200);
  });

  it("asks for the next message before it writes the result that has made room for it", async () => {
    const harness = new Harness({ workers: 1 });
    const claim = vi.spyOn(harness.broker, "claim");
    const settle = vi.spyOn(harness.broker, "settle");
    harness.gateway.latency = 100;
    await harness.submitMany(2);
    harness.start();
    await harness.run(150);
    expect(harness.gateway.ids).toHaveLength(2);
    expect(claim.mock.invocationCallOrder[1]).toBeLessThan(settle.mock.invocationCallOrder[0]!);
  });

  it("never has more in flight than the pool has workers, and keeps them busy", async () => {
    const harness = new Harness({ workers: 8 });
    harness.gateway.latency = 100;
    await harness.submitMany(80);
    harness.start();
    await harness.run(1050);
    expect(harness.gateway.peak).toBe(8);
    expect(harness.results()).toHaveLength(80);
  });

  it("sends the earliest deadline first with one worker (A-42)", async () => {
    const harness = new Harness({ workers: 1 });
    harness.gateway.latency = 10;
    for (const [id, seconds] of [
      ["c", 300],
      ["a", 100],
      ["d", 400],
      ["b", 200],
    ] as const)
      await harness.submit(id, { deadline: harness.in(seconds) });
    harness.start();
    await harness.run(100);
    expect(harness.gateway.ids).toEqual(["a", "b", "c", "d"]);
  });

  it("gives each failure its code (A-34)", async () => {
    const harness = new Harness();
    await harness.submit("late", { deadline: harness.in(5) });
    await harness.submit("never", { deadline: harness.in(500) });
    await harness.producer.cancelRequests(["never"]);
    harness.store.add("q", '{"internal":{},"request_kind":"redis","data":{"id":"bad","payload":{}}}', 1);
    harness.store.add(
      "q",
      `{"internal":{},"request_kind":"redis","data":{"id":"empty","deadline":${harness.in(50)}}}`,
      2,
    );
    await harness.run(10_000);
    harness.start();
    await harness.run(100);
    expect(harness.resultOf("late")).toMatchObject({
      statusCode: 0,
      errorCode: "DEADLINE_EXCEEDED",
      errorMessage: "deadline exceeded",
    });
    expect(harness.resultOf("never")).toMatchObject({ errorCode: "CANCELLED", errorMessage: "cancelled" });
    expect(harness.resultOf("bad")).toMatchObject({
      errorCode: "INVALID_REQUEST",
      errorMessage: "Failed: deadline is missing or invalid (Unix seconds).",
    });
    expect(harness.resultOf("empty")?.errorMessage).toMatch(/^Failed to marshal message's payload: /);
    expect(harness.gateway.requests).toHaveLength(0);
    expect(harness.metric("expired_at_pull_total")).toBe(1);
    expect(harness.metric("exceeded_deadline_requests_total")).toBe(1);
    expect(harness.metric("failed_requests_total")).toBe(2);
    // What no attempt can mend is kept for whoever wants to see it.
    expect(harness.store.dead("q").map(({ reason }) => reason)).toEqual([
      "Failed: deadline is missing or invalid (Unix seconds).",
    ]);
    expect(harness.metric("dead_lettered_total")).toBe(1);
  });
});

describe("retries", () => {
  it("repeats with growing pauses until it succeeds, and counts the message once (A-54, A-91)", async () => {
    const harness = new Harness();
    harness.gateway.reply = (_, attempt) => (attempt < 4 ? answer(500) : answer(200));
    await harness.submit("a");
    harness.start();
    await harness.run(60_000);
    expect(harness.resultOf("a")?.statusCode).toBe(200);
    const times = harness.gateway.requests.map(({ at }) => at);
    expect(times).toHaveLength(4);
    for (const [i, least] of [1000, 3000, 7000].entries()) expect(times[i + 1]! - times[i]!).toBeGreaterThan(least);
    expect(harness.metric("request_total")).toBe(1);
    expect(harness.metric("request_retries_total")).toBe(3);
  });

  it("at most seven attempts in 60 s against a constant 429 without a metric gate (A-54)", async () => {
    const harness = new Harness();
    harness.gateway.reply = () => answer(429);
    await harness.submit("a");
    harness.start();
    await harness.run(60_000);
    expect(harness.gateway.requests.length).toBeLessThanOrEqual(7);
    expect(harness.metric("shedded_requests_total")).toBe(harness.gateway.requests.length);
  });

  it("a gateway that refuses for 30 s costs retries, not results (A-78)", async () => {
    const harness = new Harness({ workers: 16 });
    harness.gateway.reply = () =>
      harness.clock.now() < 30_000 ? { kind: "no-answer", message: "connect ECONNREFUSED" } : answer(200);
    await harness.submitMany(500, { deadline: harness.in(600) });
    harness.start();
    await harness.run(200_000);
    expect(harness.results()).toHaveLength(500);
    expect(harness.results().every(({ statusCode }) => statusCode === 200)).toBe(true);
  });

  it("ends with the last answer when the deadline leaves no time, once per message (A-83)", async () => {
    const harness = new Harness();
    harness.gateway.reply = () => answer(503, { body: Buffer.from("busy") });
    await harness.submitMany(10, { deadline: harness.in(10) });
    harness.start();
    await harness.run(15_000);
    expect(harness.results()).toHaveLength(10);
    const kinds = harness.results().map(({ statusCode, errorCode }) => `${statusCode}${errorCode}`);
    for (const kind of kinds) expect(["503", "0DEADLINE_EXCEEDED"]).toContain(kind);
    expect(kinds).toContain("503");
    expect(harness.metric("exceeded_deadline_requests_total")).toBe(10);
  });

  it("a request timeout with time left is repeated; a deadline in flight is the end (A-80)", async () => {
    const harness = new Harness({ requestTimeout: 1000 });
    harness.gateway.latency = 5000;
    await harness.submit("slow", { deadline: harness.in(600) });
    await harness.submit("short", { deadline: harness.in(1) });
    harness.start();
    await harness.run(30_000);
    expect(harness.resultOf("short")).toMatchObject({ statusCode: 0, errorCode: "DEADLINE_EXCEEDED" });
    expect(harness.resultOf("slow")).toBeUndefined();
    harness.gateway.latency = 10;
    await harness.run(60_000);
    expect(harness.resultOf("slow")?.statusCode).toBe(200);
    expect(harness.metric("exceeded_deadline_requests_total")).toBe(1);
  });
});

describe("capacities", () => {
  it("never lets more run than N, however many workers there are", async () => {
    const harness = new Harness({ workers: 64, gates: {} });
    const capacity = new FakeCapacity(harness.clock, { budget: 0.7, baseline: 0.1, maxSys: 50 });
    const gated = new Harness({ ...harness, workers: 64, gates: { q: capacity.gate() } });
    gated.gateway.latency = 2000;
    await gated.submitMany(200);
    gated.start();
    await gated.run(1900);
    expect(gated.gateway.running).toBe(30);
    await gated.run(60_000);
    expect(gated.gateway.peak).toBe(30);
  });

  it("an overload answer closes every queue behind the gate until a later sample (A-5)", async () => {
    const base = new Harness();
    const capacity = new FakeCapacity(base.clock, { budget: 0.9, maxSys: 20 });
    const queues = [queueSettings("q"), queueSettings("r")];
    const harness = new Harness({ ...base, queues, workers: 64, gates: { q: capacity.gate(), r: capacity.gate() } });
    harness.gateway.latency = 100;
    harness.gateway.reply = () => answer(429);
    await harness.submitMany(100);
    await harness.submitMany(100, { requestQueueName: "r" }, "r");
    harness.start();
    await harness.run(30_000);
    // Those that were on their way when the first answer came.
    expect(harness.gateway.requests.length).toBeLessThanOrEqual(18);
    const before = harness.gateway.requests.length;
    harness.gateway.reply = () => answer(200);
    await harness.run(30_000);
    expect(harness.gateway.requests.length).toBe(before);
    capacity.sample();
    await harness.run(1100);
    expect(harness.gateway.requests.length).toBeGreaterThan(before);
  });

  it.each(["evicted-for-priority", "rejected-ttl-expired"])(
    "a 429 with the reason %s does not latch (A-6)",
    async (dropReason) => {
      const base = new Harness();
      const capacity = new FakeCapacity(base.clock, { budget: 1, maxSys: 4 });
      const harness = new Harness({ ...base, workers: 4, gates: { q: capacity.gate() } });
      harness.gateway.latency = 100;
      harness.gateway.reply = (_, attempt) => (attempt === 1 ? answer(429, { dropReason }) : answer(200));
      await harness.submitMany(40);
      harness.start();
      await harness.run(20_000);
      expect(harness.results()).toHaveLength(40);
    },
  );

  it("looks at the metric again before it sends what has waited for a worker (A-9)", async () => {
    const base = new Harness();
    const capacity = new FakeCapacity(base.clock, { budget: 1, maxSys: 50 });
    // A policy that holds more than the workers can take, as lanes do.
    const harness = new Harness({ ...base, workers: 1, gates: { q: capacity.gate() }, policy: greedy });
    harness.gateway.latency = 2000;
    await harness.submitMany(2);
    harness.start();
    await harness.run(1000);
    capacity.sample({ budget: 0, baseline: 0.1 });
    await harness.run(5000);
    expect(harness.gateway.requests).toHaveLength(1);
    expect(harness.store.queue("q").size).toBe(1);
    expect(harness.metric("gate_decisions_total", 'reason="gate_closed"')).toBeGreaterThan(0);
  });

  it("a closed gate still ends what expires, with a result and a counter (A-48)", async () => {
    const base = new Harness();
    const capacity = new FakeCapacity(base.clock, { budget: 0 });
    const harness = new Harness({ ...base, gates: { q: capacity.gate() } });
    harness.start();
    await harness.submitMany(20, { deadline: harness.in(5) });
    await harness.run(10_000);
    expect(harness.results().map(({ errorCode }) => errorCode)).toEqual(Array(20).fill("DEADLINE_EXCEEDED"));
    expect(harness.gateway.requests).toHaveLength(0);
    expect(harness.metric("expired_at_pull_total")).toBe(20);
  });

  it("opens within a second of a sample that says so", async () => {
    const base = new Harness();
    const capacity = new FakeCapacity(base.clock, { readable: false, problem: "down" });
    const harness = new Harness({ ...base, gates: { q: capacity.gate() } });
    await harness.submitMany(3);
    harness.start();
    await harness.run(60_000);
    expect(harness.gateway.requests).toHaveLength(0);
    capacity.sample({ readable: true, budget: 1, maxSys: 50 });
    await harness.run(1100);
    expect(harness.gateway.requests.length).toBeGreaterThan(0);
  });

  it("bytes: r1 of 600 KiB goes, r2 of 100 KiB waits behind it, the next one does not overtake (A-11)", async () => {
    const base = new Harness();
    const KIB = 1024;
    const capacity = new FakeCapacity(base.clock, { budget: 0.7, baseline: 0.1, maxSys: 1024 * KIB, unit: "bytes" });
    const harness = new Harness({ ...base, gates: { q: capacity.gate() } });
    harness.gateway.latency = 3000;
    const body = (kib: number): string => `{"prompt":"${"x".repeat(kib * KIB - 13)}"}`;
    await harness.submit("r1", { payload: body(600), deadline: harness.in(100) });
    await harness.submit("r2", { payload: body(100), deadline: harness.in(200) });
    await harness.submit("r3", { payload: body(1), deadline: harness.in(300) });
    harness.start();
    await harness.run(2900);
    expect(harness.gateway.ids).toEqual(["r1"]);
    await harness.run(5000);
    expect(harness.gateway.ids).toEqual(["r1", "r2", "r3"]);
  });
});

describe("gates that judge messages", () => {
  it("a tenant over its quota does not hold up the next one, and keeps its place (A-27, A-51)", async () => {
    const gate = {
      capacities: [],
      budget: async () => 1,
      apply: ({ metadata }: { metadata: Readonly<Record<string, string>> }) =>
        metadata["userid"] === "a"
          ? ({ kind: "refuse", reason: "quota_exhausted" } as const)
          : ({ kind: "continue" } as const),
      refusalKey: ({ metadata }: { metadata: Readonly<Record<string, string>> }) => metadata["userid"],
    };
    const harness = new Harness({ gates: { q: gate }, workers: 4 });
    await harness.submitMany(300, { metadata: { userid: "a" }, deadline: harness.in(1000) }, "a");
    await harness.submitMany(15, { metadata: { userid: "b" }, deadline: harness.in(2000) }, "b");
    harness.start();
    await harness.run(500);
    expect(harness.results().map(({ id }) => id[0])).toEqual(Array(15).fill("b"));
    await harness.run(4000);
    expect(harness.metric("gate_decisions_total", 'reason="quota_exhausted"')).toBeGreaterThanOrEqual(300);
    const stopped = harness.dispatcher.stop(0);
    await harness.run(100);
    await stopped;
    expect(harness.store.queue("q").size).toBe(300);
  });

  it("wait parks the message at the queue's gate until it may go (A-24), and reservations come back (A-57)", async () => {
    let open = false;
    let reserved = 0;
    const gate = {
      capacities: [],
      budget: async () => 1,
      apply: (_: unknown, reservations: { add(release: () => void): void }) => {
        if (!open) return { kind: "wait" } as const;
        reserved++;
        reservations.add(() => reserved--);
        return { kind: "continue" } as const;
      },
    };
    const harness = new Harness({ gates: { q: gate } });
    harness.gateway.latency = 50;
    await harness.submitMany(5);
    harness.start();
    await harness.run(5000);
    expect(harness.gateway.requests).toHaveLength(0);
    open = true;
    await harness.run(240);
    expect(reserved).toBe(5);
    await harness.run(1000);
    expect(harness.results()).toHaveLength(5);
    expect(reserved).toBe(0);
  });

  it("drop ends with GATE_DROPPED or with the gate's own result; an error keeps the message", async () => {
    let verdict: unknown = { kind: "drop" };
    const gate = {
      capacities: [],
      budget: async () => 1,
      apply: () => {
        if (verdict === "throw") throw new Error("redis is away");
        return verdict as { kind: "continue" };
      },
    };
    const harness = new Harness({ gates: { q: gate } });
    harness.start();
    await harness.submit("a");
    await harness.run(10);
    verdict = {
      kind: "drop",
      result: { payload: '{"error":"Too Many Requests","code":429}', statusCode: 429, errorCode: "GATE_DROPPED" },
    };
    await harness.submit("b");
    await harness.run(10);
    verdict = "throw";
    await harness.submit("c");
    await harness.run(3000);
    expect(harness.resultOf("a")).toMatchObject({
      errorCode: "GATE_DROPPED",
      errorMessage: "Pool gating dropped request",
    });
    expect(harness.resultOf("b")).toMatchObject({ statusCode: 429, errorCode: "GATE_DROPPED" });
    expect(harness.resultOf("c")).toBeUndefined();
    expect(harness.metric("gate_decisions_total", 'reason="error"')).toBeGreaterThan(0);
    verdict = { kind: "continue" };
    await harness.run(3000);
    expect(harness.resultOf("c")?.statusCode).toBe(200);
  });

  it("a pool's gate that is closed for three request timeouts ends nothing (A-29)", async () => {
    let open = false;
    const gate = {
      capacities: [],
      budget: async () => (open ? 1 : 0),
      apply: () => (open ? ({ kind: "continue" } as const) : ({ kind: "wait" } as const)),
    };
    const harness = new Harness({ gates: { "pool:default": gate }, requestTimeout: 10_000, workers: 4 });
    await harness.submitMany(20);
    harness.start();
    await harness.run(30_000);
    expect(harness.results()).toHaveLength(0);
    open = true;
    await harness.run(2000);
    expect(harness.results().map(({ statusCode }) => statusCode)).toEqual(Array(20).fill(200));
  });

  it("a pool's gate that fails ends its message with GATE_ERROR, unless what it asks is away (A-34)", async () => {
    let failure: Error | undefined = new Error("no such quota");
    const gate = {
      capacities: [],
      budget: async () => 1,
      apply: () => {
        if (failure !== undefined) throw failure;
        return { kind: "continue" } as const;
      },
    };
    const harness = new Harness({ gates: { "pool:default": gate } });
    harness.start();
    await harness.submit("a");
    await harness.run(100);
    expect(harness.resultOf("a")).toMatchObject({
      errorCode: "GATE_ERROR",
      errorMessage: "Pool gating error: no such quota",
    });
    failure = new SluiceError("BROKER_UNAVAILABLE", "redis is away");
    await harness.submit("b");
    await harness.run(5000);
    expect(harness.resultOf("b")).toBeUndefined();
    failure = undefined;
    await harness.run(2000);
    expect(harness.resultOf("b")?.statusCode).toBe(200);
  });

  it("a pool that stands still holds up no other (A-67)", async () => {
    const queues = [queueSettings("q"), queueSettings("r", { workerPoolId: "other" })];
    const pools = [
      { id: "default", workers: 2, gate: undefined },
      { id: "other", workers: 2, gate: undefined },
    ];
    const stuck = { capacities: [], budget: async () => 0, apply: () => ({ kind: "wait" }) as const };
    const harness = new Harness({ queues, pools, gates: { "pool:default": stuck } });
    await harness.submitMany(10);
    await harness.submitMany(50, { requestQueueName: "r" }, "r");
    harness.start();
    await harness.run(200);
    expect(harness.results()).toHaveLength(50);
  });
});

describe("cancellation", () => {
  it("ends what waits at a gate, and what waits for its retry (A-38)", async () => {
    const gate = { capacities: [], budget: async () => 0, apply: () => ({ kind: "wait" }) as const };
    const parked = new Harness({ gates: { "pool:default": gate } });
    await parked.submit("a");
    parked.start();
    await parked.run(3000);
    await parked.producer.cancelRequests(["a", "unknown"]);
    await parked.run(2000);
    expect(parked.resultOf("a")?.errorCode).toBe("CANCELLED");

    const retrying = new Harness();
    retrying.gateway.reply = () => answer(500);
    await retrying.submit("b");
    retrying.start();
    await retrying.run(100);
    await retrying.producer.cancelRequests(["b"]);
    await retrying.run(60_000);
    expect(retrying.resultOf("b")?.errorCode).toBe("CANCELLED");
    expect(retrying.gateway.requests).toHaveLength(1);
  });

  it("a cancel check that fails delays the message and sends nothing (A-39)", async () => {
    let open = false;
    const gate = {
      capacities: [],
      budget: async () => 1,
      apply: () => (open ? ({ kind: "continue" } as const) : ({ kind: "wait" } as const)),
    };
    const harness = new Harness({ gates: { "pool:default": gate } });
    await harness.submit("a");
    harness.start();
    await harness.run(1500);
    harness.store.fault = "away";
    await harness.run(1500);
    open = true;
    await harness.run(3000);
    expect(harness.gateway.requests).toHaveLength(0);
    harness.store.fault = "none";
    await harness.run(10_000);
    expect(harness.resultOf("a")?.statusCode).toBe(200);
  });
});

describe("a worker", () => {
  it("validates, asks the pool's gate, looks for a cancellation, transforms, sends, gives back, settles (async-processor 7.6)", async () => {
    const steps: string[] = [];
    const payloads = { first: "first", second: "second" };
    const ofSecond = (payload: Uint8Array, step: string): void => {
      if (Buffer.from(payload).toString().includes(payloads.second)) steps.push(step);
    };
    const transforms: RequestTransform = {
      validate: (payload) => ofSecond(payload, "validate"),
      transform: (payload) => {
        ofSecond(payload, "transform");
        return { body: payload, contentType: "text/plain" };
      },
    };
    const gate: DispatchGate = {
      capacities: [],
      budget: async () => 1,
      apply: ({ id }, reservations) => {
        if (id === "second") steps.push("gate");
        reservations.add(() => void (id === "second" && steps.push("give back")));
        return { kind: "continue" };
      },
    };
    // One worker, which the first message keeps for longer than a second: the second one is then looked up again.
    const harness = new Harness({ workers: 1, policy: greedy, transforms, gates: { "pool:default": gate } });
    harness.gateway.latency = 1500;
    const { broker, gateway } = harness;
    vi.spyOn(broker, "cancelled").mockImplementation(async (claims) => {
      steps.push("cancelled?");
      return claims.map(() => false);
    });
    const send = gateway.send.bind(gateway);
    vi.spyOn(gateway, "send").mockImplementation((request, signal) => {
      ofSecond(request.body, "send");
      return send(request, signal);
    });
    const settle = broker.settle.bind(broker);
    vi.spyOn(broker, "settle").mockImplementation((settlements) => {
      const ids = settlements.map(({ claim }) => claim.message.request.id);
      if (ids.includes("second")) steps.push(`settle, ${harness.metric("request_total")} counted`);
      return settle(settlements);
    });
    for (const [id, prompt] of Object.entries(payloads)) await harness.submit(id, { payload: { prompt } });
    harness.start();
    await harness.run(5000);
    expect(steps).toEqual([
      ...["validate", "gate", "cancelled?", "transform", "send", "give back"],
      "settle, 2 counted",
    ]);
    expect(harness.resultOf("second")?.statusCode).toBe(200);
  });
});

describe("a broker that is away", () => {
  it("is asked again when it announces something, not at the next look", async () => {
    const harness = new Harness();
    harness.store.fault = "away";
    harness.start();
    await harness.run(100);
    harness.store.fault = "none";
    await harness.submit("a");
    await harness.run(10);
    expect(harness.gateway.ids).toEqual(["a"]);
  });

  it("for a minute during the results: every result arrives once (A-46)", async () => {
    const harness = new Harness({ workers: 32 });
    harness.gateway.latency = 500;
    await harness.submitMany(100);
    harness.start();
    await harness.run(200);
    harness.store.fault = "away";
    await harness.run(60_000);
    harness.store.fault = "none";
    await harness.run(120_000);
    expect(harness.results()).toHaveLength(100);
    expect(new Set(harness.results().map(({ id }) => id)).size).toBe(100);
  });

  it("answers that get lost cost no message and write no result twice", async () => {
    const harness = new Harness({ workers: 8, leases: { claimTtl: 5000, reclaimInterval: 1000 } });
    harness.gateway.latency = 30;
    await harness.submitMany(200);
    harness.start();
    for (let i = 0; i < 40; i++) {
      harness.store.fault = i % 3 === 0 ? "answer-lost" : "none";
      await harness.run(100);
    }
    harness.store.fault = "none";
    await harness.run(60_000);
    expect(harness.results()).toHaveLength(200);
    expect(new Set(harness.results().map(({ id }) => id)).size).toBe(200);
  });
});

describe("stopping", () => {
  it("lets what runs end and gives everything else back (A-87)", async () => {
    const harness = new Harness({ workers: 4 });
    harness.gateway.latency = 60_000;
    await harness.submitMany(20);
    harness.start();
    await harness.run(1000);
    const stopped = harness.dispatcher.stop(120_000);
    await harness.run(61_000);
    await stopped;
    expect(harness.results()).toHaveLength(4);
    expect(harness.store.queue("q").size).toBe(16);
    expect(harness.store.leases.size).toBe(0);
  });

  it("cuts off what does not end in time and gives it back at once (A-87)", async () => {
    const harness = new Harness({ workers: 4 });
    harness.gateway.latency = 60_000;
    await harness.submitMany(20);
    harness.start();
    await harness.run(1000);
    let ended = false;
    void harness.dispatcher.stop(5000).then(() => {
      ended = true;
    });
    await harness.run(4900);
    expect(ended).toBe(false);
    await harness.run(200);
    expect(ended).toBe(true);
    expect(harness.store.queue("q").size).toBe(20);
    expect(harness.results()).toHaveLength(0);
    expect(harness.metric("request_total")).toBeNaN();
  });

  it("gives back what waits at a closed gate (A-88)", async () => {
    const gate = { capacities: [], budget: async () => 0, apply: () => ({ kind: "wait" }) as const };
    for (const where of ["q", "pool:default"]) {
      const harness = new Harness({ gates: { [where]: gate }, workers: 4 });
      await harness.submitMany(10);
      harness.start();
      await harness.run(3000);
      const stopped = harness.dispatcher.stop(120_000);
      await harness.run(1000);
      await stopped;
      expect(harness.store.queue("q").size).toBe(10);
      expect(harness.store.leases.size).toBe(0);
    }
  });

  it("loses nothing to a broker that takes half a second for everything (A-89)", async () => {
    const harness = new Harness({ workers: 4 });
    harness.gateway.latency = 100;
    harness.store.latency = 500;
    await Promise.all([harness.submitMany(50), harness.run(1000)]);
    harness.start();
    await harness.run(3300);
    const stopped = harness.dispatcher.stop(10_000);
    await harness.run(15_000);
    await stopped;
    expect(harness.store.queue("q").size + harness.results().length).toBe(50);
    expect(harness.store.leases.size).toBe(0);
  });

  it("ends although the broker stays away; the leases bring the messages back", async () => {
    const harness = new Harness({ workers: 4 });
    harness.gateway.latency = 100;
    await harness.submitMany(10);
    harness.start();
    await harness.run(50);
    harness.store.fault = "away";
    let ended = false;
    void harness.dispatcher.stop(1000).then(() => {
      ended = true;
    });
    await harness.run(6000);
    expect(ended).toBe(true);
  });
});

/** Holds more than the workers can take. */
const greedy = () => {
  const claims: import("../brokers/broker.ts").Claim[] = [];
  return {
    get size() {
      return claims.length;
    },
    room: () => 10 - claims.length,
    add: (claim: import("../brokers/broker.ts").Claim) => void claims.push(claim),
    next: () => claims.shift(),
    drain: () => claims.splice(0),
    stamp: () => [],
  };
};
