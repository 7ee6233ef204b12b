import { describe, expect, it } from "vitest";
import { Harness } from "../../../test/support/dispatch/harness.cases.ts";
import { createDispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { BacklogPoller } from "./backlog-poller.ts";

/** A poller at the side of a dispatcher that is not started, so that what waits stays there. */
function made(interval = 15_000) {
  const harness = new Harness();
  const poller = new BacklogPoller({
    ...{ broker: harness.broker, clock: harness.clock, interval },
    consumers: harness.dispatcher.consumers,
    metrics: createDispatchMetrics(new MetricsRegistry()),
  });
  return { harness, poller };
}

describe("BacklogPoller (A-94, H-38)", () => {
  it("shows what waits and what is parked, and looks again after the interval", async () => {
    const { harness, poller } = made();
    await harness.submitMany(7);
    poller.start();
    await harness.run(10);
    expect(harness.metric("broker_backlog")).toBe(7);
    await harness.submitMany(2, {}, "n");
    await harness.run(14_000);
    expect(harness.metric("broker_backlog")).toBe(7);
    await harness.run(2000);
    expect(harness.metric("broker_backlog")).toBe(9);
    poller.stop();
    await harness.submitMany(2, {}, "o");
    await harness.run(60_000);
    expect(harness.metric("broker_backlog")).toBe(9);
  });

  it("keeps its last value when a look fails, and counts that", async () => {
    const { harness, poller } = made();
    await harness.submitMany(7);
    poller.start();
    await harness.run(10);
    harness.store.fault = "away";
    await harness.run(40_000);
    expect(harness.metric("broker_backlog")).toBe(7);
    expect(harness.metric("broker_backlog_poll_errors_total")).toBe(2);
    expect(poller.views.get("q")?.waiting).toBe(7);
    harness.store.fault = "none";
    await harness.producer.clearRequestQueue();
    await harness.run(15_000);
    expect(harness.metric("broker_backlog")).toBe(0);
    expect(harness.metric("backlog_eta_seconds")).toBe(0);
  });

  it("has a figure soon after a start before the broker is connected, and that counts as no failure", async () => {
    const { harness, poller } = made();
    harness.store.fault = "away";
    await harness.run(10);
    poller.start();
    await harness.run(500);
    harness.store.fault = "none";
    await harness.run(1000);
    expect(harness.metric("broker_backlog")).toBe(0);
    expect(harness.metric("broker_backlog_poll_errors_total")).toBeNaN();
  });

  it("an interval of 0 asks nothing", async () => {
    const { harness, poller } = made(0);
    poller.start();
    await harness.run(60_000);
    expect(harness.metric("broker_backlog")).toBeNaN();
  });
});
