import { describe, expect, it } from "vitest";
import { answer, FakeCapacity, Harness, queueSettings } from "../../../test/support/dispatch/harness.cases.ts";

function gated(over: ConstructorParameters<typeof FakeCapacity>[1]) {
  const base = new Harness();
  const capacity = new FakeCapacity(base.clock, over);
  const harness = new Harness({
    clock: base.clock,
    store: base.store,
    gateway: base.gateway,
    gates: { q: capacity.gate() },
  });
  return { harness, capacity };
}

describe("series of the budget (A-91, async-processor 8.6)", () => {
  it("show the budget and N of the gate from the first poll on, and follow it", async () => {
    const { harness, capacity } = gated({ budget: 0.7, baseline: 0.1, maxSys: 50 });
    harness.start();
    await harness.run(100);
    expect(harness.metric("dispatch_budget")).toBeCloseTo(0.6, 9);
    expect(harness.metric("dispatch_allowance")).toBe(30);
    expect(harness.metric("overload_latch")).toBe(0);
    capacity.sample({ budget: 0.2 });
    await harness.run(2100);
    expect(harness.metric("dispatch_budget")).toBeCloseTo(0.1, 9);
    expect(harness.metric("dispatch_allowance")).toBe(5);
    capacity.sample({ readable: false, problem: "down" });
    await harness.run(2100);
    expect(harness.metric("dispatch_budget")).toBe(0);
    expect(harness.metric("dispatch_allowance")).toBe(0);
  });

  it("show a latched gate as budget 0 until a later sample (async-processor 2.7)", async () => {
    const { harness, capacity } = gated({ budget: 0.9, maxSys: 10 });
    harness.gateway.reply = () => answer(429);
    await harness.submitMany(30);
    harness.start();
    await harness.run(3000);
    expect(harness.metric("overload_latch")).toBe(1);
    expect(harness.metric("dispatch_budget")).toBe(0);
    expect(harness.metric("dispatch_allowance")).toBe(0);
    expect(harness.metric("gate_decisions_total", 'reason="gate_closed"')).toBeGreaterThan(0);
    harness.gateway.reply = () => answer(200);
    capacity.sample();
    await harness.run(2100);
    expect(harness.metric("overload_latch")).toBe(0);
    expect(harness.metric("dispatch_budget")).toBeCloseTo(0.9, 9);
  });

  it("a queue without a gate has budget 1, and neither an N nor a latch", async () => {
    const harness = new Harness();
    harness.gateway.reply = () => answer(429);
    await harness.submit("a");
    harness.start();
    await harness.run(3000);
    expect(harness.metric("dispatch_budget")).toBe(1);
    expect(harness.metric("dispatch_allowance")).toBeNaN();
    expect(harness.metric("overload_latch")).toBeNaN();
  });

  it("are not asked for more than about once a second, however busy the queue is", async () => {
    let asked = 0;
    const gate = {
      capacities: [],
      budget: async () => {
        asked++;
        return 1;
      },
      apply: () => ({ kind: "continue" }) as const,
    };
    const harness = new Harness({ gates: { q: gate } });
    harness.gateway.latency = 5;
    await harness.submitMany(8000);
    harness.start();
    await harness.run(5000);
    expect(harness.results()).toHaveLength(8000);
    expect(asked).toBeLessThan(8);
  });
});

describe("counters of messages (A-91, H-39)", () => {
  it("count a message once, however often it goes back before its first attempt comes to something", async () => {
    let held = 3;
    const gate = {
      capacities: [],
      budget: async () => 1,
      apply: () =>
        held-- > 0 ? ({ kind: "refuse", reason: "quota_exhausted" } as const) : ({ kind: "continue" } as const),
    };
    const harness = new Harness({ gates: { "pool:default": gate }, workers: 1 });
    harness.gateway.latency = 60_000;
    await harness.submit("a");
    harness.start();
    await harness.run(10_000);
    // Sent, and taken back by a stop.
    expect(harness.gateway.running).toBe(1);
    const stopped = harness.dispatcher.stop(0);
    await harness.run(1000);
    await stopped;
    expect(harness.metric("request_total")).toBeNaN();
    const second = new Harness({ clock: harness.clock, store: harness.store, gateway: harness.gateway });
    harness.gateway.latency = 10;
    harness.gateway.reply = (_, attempt) => (attempt < 4 ? answer(503) : answer(200));
    second.start();
    await harness.run(60_000);
    expect(second.resultOf("a")?.statusCode).toBe(200);
    expect(second.metric("request_total")).toBe(1);
    expect(second.metric("successful_requests_total")).toBe(1);
    expect(second.metric("request_retries_total")).toBe(2);
  });

  it("add up: what was requested is what succeeded, failed, or ran out of time, and gauges end at 0", async () => {
    const queues = [queueSettings("q"), queueSettings("r", { labels: { tier: "batch" } })];
    const harness = new Harness({ queues, workers: 5 });
    harness.gateway.latency = 40;
    harness.gateway.reply = ({ body }) => answer([200, 200, 404, 429, 500][body.length % 5]!);
    for (let i = 0; i < 100; i++)
      await harness.submit(`m${i}`, {
        deadline: harness.in(20 + (i % 7)),
        payload: { prompt: "x".repeat(i % 5) },
        requestQueueName: i % 2 === 0 ? "q" : "r",
      });
    harness.start();
    await harness.run(60_000);
    expect(harness.results()).toHaveLength(100);
    for (const name of ["q", "r"]) {
      const of = (metric: string): number => harness.metric(metric, `queue_name="${name}"`);
      expect(of("request_total")).toBe(50);
      expect(of("successful_requests_total")).toBe(20);
      expect(of("failed_requests_total")).toBe(10);
      expect(of("exceeded_deadline_requests_total")).toBe(20);
      for (const gauge of ["queue_depth", "inflight_requests", "claims_active"]) expect(of(gauge)).toBe(0);
      expect(of("inference_latency_time_millis_count")).toBe(50 - 20 + of("request_retries_total") + 20);
    }
    expect(harness.metric("shedded_requests_total")).toBeGreaterThan(20);
  });
});
