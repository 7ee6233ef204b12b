import { expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { createDispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import { DISPATCH_GAUGE, DispatchWatch } from "./dispatch-watch.ts";
import type { Dispatcher } from "./dispatcher.ts";

it("reports once that the broker is away, and once that it is back; what the store has is not known meanwhile", () => {
  const clock = new VirtualClock();
  const watch = new DispatchWatch(clock, createDispatchMetrics(new MetricsRegistry()));
  let unusable: string | undefined;
  const health = {
    get unusable() {
      return unusable;
    },
  };
  const dispatcher = { pools: [], capacities: new Map(), health } as unknown as Dispatcher;
  const view = { waiting: 7, claimed: 0, retries: 0, dead: 0, nextDeadline: 9, rate: 1, eta: 7, age: 3 };
  const backlog = { views: new Map([["q", view]]) };
  const second = (problem?: string): readonly number[] => {
    unusable = problem;
    clock.advance(1000);
    watch.sample(dispatcher, backlog, { cpu: 0, lag: 0 });
    const { ring } = watch;
    const { broker, backlog: waiting, oldest, eta } = DISPATCH_GAUGE;
    return [broker, waiting, oldest, eta].map((place) => ring.gauge(ring.newest, place));
  };
  expect(second()).toEqual([1, 7, 3, 7]);
  for (let n = 0; n < 3; n++) expect(second("connect ECONNREFUSED")).toEqual([0, Number.NaN, Number.NaN, Number.NaN]);
  expect(second()).toEqual([1, 7, 3, 7]);
  expect(watch.events.after(0).events.map(({ kind, text }) => [kind, text])).toEqual([
    ["store-away", "the broker cannot be used: connect ECONNREFUSED"],
    ["store-back", "the broker can be used again"],
  ]);
});
