import { describe, expect, it } from "vitest";
import {
  answer,
  FakeCapacity,
  Harness,
  type HarnessOptions,
  queueSettings,
} from "../../../test/support/dispatch/harness.cases.ts";

const WAITING = { capacities: [], budget: async () => 0, apply: () => ({ kind: "wait" }) as const };
const LONG = 10_000_000;

/** Dispatchers in which nothing can leave for hours, each for another reason. */
const STANDING: readonly (readonly [string, (base: Harness) => HarnessOptions])[] = [
  ["every worker has a request that takes hours", () => ({})],
  ["every worker is parked at its pool's gate", () => ({ gates: { "pool:default": WAITING } })],
  ["the queue's gate parks all there is room for", () => ({ gates: { q: WAITING } })],
  [
    "what runs is all that N allows",
    ({ clock }) => ({
      gates: { q: new FakeCapacity(clock, { budget: 0.5, baseline: 0.1, maxSys: 5 }).gate() },
      workers: 64,
    }),
  ],
  ["the gate is closed", ({ clock }) => ({ gates: { q: new FakeCapacity(clock, { budget: 0 }).gate() } })],
  [
    "the gate's metric cannot be read",
    ({ clock }) => ({ gates: { q: new FakeCapacity(clock, { readable: false, problem: "down" }).gate() } }),
  ],
];

describe.each(STANDING)("while %s", (_, options) => {
  function standing(): Harness {
    const base = new Harness();
    const harness = new Harness({
      clock: base.clock,
      store: base.store,
      gateway: base.gateway,
      workers: 2,
      ...options(base),
    });
    harness.gateway.latency = LONG;
    return harness;
  }

  it("what expires has its one result within two seconds, and is counted (A-48)", async () => {
    const harness = standing();
    await harness.submitMany(2, { deadline: harness.in(100_000) });
    harness.start();
    await harness.run(3000);
    await harness.submitMany(20, { deadline: harness.in(5) }, "late");
    await harness.run(7100);
    expect(harness.results().map(({ errorCode }) => errorCode)).toEqual(Array(20).fill("DEADLINE_EXCEEDED"));
    expect(harness.metric("expired_at_pull_total")).toBe(20);
    expect(harness.metric("exceeded_deadline_requests_total")).toBe(20);
  });

  it("10,000 expired entries have their results within five seconds (A-49)", async () => {
    const harness = standing();
    await harness.submitMany(2, { deadline: harness.in(100_000) });
    await harness.submitMany(10_000, { deadline: harness.in(5) }, "late");
    await harness.run(6000);
    harness.start();
    await harness.run(5000);
    expect(harness.results()).toHaveLength(10_000);
    expect(harness.store.queue("q").size + harness.dispatcher.claims).toBe(2);
  });
});

describe("10,000 expired entries", () => {
  it("do not hold up what is alive (A-49)", async () => {
    const harness = new Harness({ workers: 4 });
    harness.store.latency = 2;
    harness.gateway.latency = 20;
    const submitted = [harness.submitMany(10_000, { deadline: harness.in(5) }, "late"), harness.submitMany(100)];
    await harness.run(6000);
    await Promise.all(submitted);
    harness.start();
    await harness.run(1500);
    // 100 of 20 ms each with four workers are half a second.
    expect(harness.results().filter(({ statusCode }) => statusCode === 200)).toHaveLength(100);
    await harness.run(3500);
    expect(harness.results()).toHaveLength(10_100);
  });
});

describe("an expiry in one queue of a pool", () => {
  it("is told although another queue's messages hold every worker at the pool's gate", async () => {
    const queues = [queueSettings("q"), queueSettings("r")];
    const harness = new Harness({ queues, workers: 3, gates: { "pool:default": WAITING } });
    await harness.submitMany(10);
    harness.start();
    await harness.run(2000);
    await harness.submitMany(5, { deadline: harness.in(4), requestQueueName: "r" }, "r");
    await harness.run(6100);
    expect(harness.results().map(({ id, errorCode }) => id[0] + errorCode)).toEqual(
      Array(5).fill("rDEADLINE_EXCEEDED"),
    );
  });
});

describe("a deadline (async-processor 4.5)", () => {
  it("that passes while a message waits for its retry is told when the retry was due, not later", async () => {
    const harness = new Harness();
    harness.gateway.reply = () => ({ kind: "no-answer", message: "connect ECONNREFUSED" });
    await harness.submit("a", { deadline: harness.in(7) });
    harness.start();
    await harness.run(9000);
    expect(harness.resultOf("a")).toMatchObject({ statusCode: 0, errorCode: "DEADLINE_EXCEEDED" });
    expect(harness.metric("failed_requests_total")).toBeNaN();
    expect(harness.metric("request_total")).toBe(1);
  });

  it("in flight ends the attempt; its answer, had it come, would have been too late (A-80)", async () => {
    const harness = new Harness();
    harness.gateway.latency = LONG;
    await harness.submit("a", { deadline: harness.in(5) });
    harness.start();
    await harness.run(4900);
    expect(harness.gateway.running).toBe(1);
    await harness.run(300);
    expect(harness.gateway.running).toBe(0);
    expect(harness.resultOf("a")).toMatchObject({ statusCode: 0, errorCode: "DEADLINE_EXCEEDED" });
    expect(harness.metric("exceeded_deadline_requests_total")).toBe(1);
  });

  it("an answer that comes in time counts, also in the last second", async () => {
    const harness = new Harness();
    harness.gateway.latency = 4900;
    await harness.submit("a", { deadline: harness.in(5) });
    harness.start();
    await harness.run(5000);
    expect(harness.resultOf("a")?.statusCode).toBe(200);
  });

  it("leaves an attempt no longer than it is, however long a request may take (async-processor 7.5)", async () => {
    const harness = new Harness({ requestTimeout: 3000 });
    harness.gateway.latency = LONG;
    await harness.submit("short", { deadline: harness.in(2) });
    await harness.submit("long", { deadline: harness.in(1000) });
    harness.start();
    await harness.run(100);
    const limits = harness.gateway.requests.map(({ timeoutMs }) => timeoutMs).sort((a, b) => a - b);
    expect(limits).toEqual([2000, 3000]);
  });

  it("far away, or long gone, is no trouble", async () => {
    const harness = new Harness();
    const far = Number.MAX_SAFE_INTEGER;
    harness.store.add(
      "q",
      `{"internal":{},"request_kind":"redis","data":{"id":"far","deadline":${far},"payload":{}}}`,
      far,
    );
    harness.store.add("q", '{"internal":{},"request_kind":"redis","data":{"id":"old","deadline":1,"payload":{}}}', 1);
    harness.gateway.reply = (_, attempt) => (attempt === 1 ? answer(503, { retryAfterMs: 1e12 }) : answer(200));
    harness.start();
    await harness.run(1000);
    expect(harness.resultOf("old")?.errorCode).toBe("DEADLINE_EXCEEDED");
    expect(harness.resultOf("far")).toBeUndefined();
    // Parked until what the gateway asked for, and not lost.
    expect(harness.store.parked.size).toBe(1);
  });
});
