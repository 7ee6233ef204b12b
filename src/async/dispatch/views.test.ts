import { describe, expect, it } from "vitest";
import { FakeCapacity, Harness } from "../../../test/support/dispatch/harness.cases.ts";
import { createDispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { BacklogPoller } from "./backlog-poller.ts";
import { gatesView, queuesView } from "./views.ts";

interface Gates {
  readonly capacities: readonly Record<string, unknown>[];
  readonly queues: readonly Record<string, unknown>[];
  readonly pools: readonly Record<string, unknown>[];
}

function gated(over: ConstructorParameters<typeof FakeCapacity>[1]) {
  const base = new Harness();
  const capacity = new FakeCapacity(base.clock, over);
  const harness = new Harness({ ...base, workers: 64, gates: { q: capacity.gate() } });
  const view = (): Gates => gatesView(harness.dispatcher, harness.clock.wall()) as Gates;
  return { capacity, harness, view };
}

describe("gatesView", () => {
  it("shows D, B, max_SYS, N, what runs, what more may start, and how old the sample is", async () => {
    const { harness, view } = gated({ budget: 0.7, baseline: 0.1, maxSys: 50 });
    harness.gateway.latency = 10_000;
    await harness.submitMany(12);
    harness.start();
    await harness.run(2000);
    expect(view().capacities[0]).toMatchObject({ state: "open", D: 0.7, B: 0.1, maxSys: 50, unit: "requests", N: 30 });
    expect(view().capacities[0]).toMatchObject({ own: 12, moreMayStart: 18, sampleAgeSeconds: 2, latched: false });
    expect(view().queues[0]).toMatchObject({ queue: "q", state: "empty", because: "nothing waits" });
    expect(view().pools[0]).toEqual({ pool: "default", gate: "none", workers: 64, running: 12 });
  });

  it("says why a gate is closed: full, not to be read, or latched by an overloaded gateway", async () => {
    const { capacity, harness, view } = gated({ budget: 0.05, baseline: 0.1, maxSys: 50 });
    await harness.submitMany(3);
    harness.start();
    await harness.run(3000);
    expect(view().capacities[0]!["because"]).toBe("budget D 0.050 is not above baseline B 0.1");
    expect(view().queues[0]).toMatchObject({ state: "closed", because: "a gate is closed (see its capacity)" });
    capacity.sample({ readable: false, problem: "connection refused" });
    await harness.run(2000);
    expect(view().capacities[0]).toMatchObject({
      state: "unreadable",
      because: "the metric cannot be read: connection refused",
    });
    capacity.sample({ readable: true, budget: 1 });
    await harness.run(2000);
    for (const each of harness.dispatcher.capacities.values()) each.latch();
    await harness.run(1500);
    expect(view().capacities[0]).toMatchObject({ state: "latched", latched: true });
    expect(view().capacities[0]!["because"]).toMatch(/^the gateway reported overload 1\.5 s ago/);
  });
});

describe("queuesView", () => {
  it("shows what waits, the rate and the time it will take, in JSON throughout", async () => {
    const harness = new Harness({ workers: 2 });
    harness.gateway.latency = 1000;
    await harness.submitMany(40);
    const { consumers } = harness.dispatcher;
    const metrics = createDispatchMetrics(new MetricsRegistry());
    const poller = new BacklogPoller({ ...harness, metrics, consumers, interval: 5000 });
    harness.start();
    poller.start();
    await harness.run(10_500);
    const view = queuesView(harness.dispatcher, poller) as { queues: Record<string, number | null>[] };
    expect(view.queues[0]).toMatchObject({ queue: "q", waiting: 20, claimed: 2, dead: 0, ended: 20 });
    expect(view.queues[0]!["etaSeconds"]).toBeGreaterThan(9);
    expect(view.queues[0]!["oldestAgeSeconds"]).toBe(10);
    expect(JSON.parse(JSON.stringify(view))).toEqual(view);
    poller.stop();
  });
});
