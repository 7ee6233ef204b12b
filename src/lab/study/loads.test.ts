import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { NO_COUNTS } from "../simulator/engine-counters.ts";
import type { ModelEngine } from "../simulator/model-engine.ts";
import { Loads } from "./loads.ts";

/** Engines of which only the loads matter, as functions of the time. */
function watched(loads: readonly ((now: number) => number)[], ms: number, from = 0, until = ms, keep = false) {
  const clock = new VirtualClock();
  const nothing = (): never => {
    throw new Error("nobody asks for it");
  };
  const engines = loads.map((load): ModelEngine => {
    const parts = { counters: NO_COUNTS, snapshotMetrics: nothing, submit: nothing, abort: nothing };
    return Object.defineProperties({ ...parts, running: 0, waiting: 0 }, { running: { get: () => load(clock.now()) } });
  });
  const result = new Loads(engines, clock, keep);
  result.watch(
    () => clock.now() < ms,
    () => clock.now() >= from && clock.now() < until,
  );
  clock.advance(ms + 1000);
  return { result, clock };
}

describe("the spread of load", () => {
  it("is the busiest server's by the mean one's at each moment, weighed by how much there is", () => {
    // Each is the only busy one half of the time: even on average, and never even.
    const { result } = watched([(now) => (now < 500 ? 4 : 0), (now) => (now < 500 ? 0 : 4)], 1000);
    expect(result.maxToMean).toBe(2);
    expect(result.means).toEqual([2, 2]);
  });

  it("is 1 where all have the same, and where there is nothing at all", () => {
    expect(watched([() => 3, () => 3, () => 3], 1000).result.maxToMean).toBe(1);
    expect(watched([() => 0, () => 0], 1000).result.maxToMean).toBe(1);
    expect(watched([() => 7], 1000).result.maxToMean).toBe(1);
  });

  it("leaves out warm-up and what ends after the last arrival", () => {
    const outside = (now: number): number => (now < 300 || now >= 700 ? 100 : 1);
    const { result } = watched([outside, () => 1], 1000, 300, 700);
    expect([result.maxToMean, result.means]).toEqual([1, [1, 1]]);
  });

  it("is looked at no longer than the run goes on", () => {
    expect(watched([() => 1], 1000).clock.pending).toBe(0);
  });
});

describe("samples", () => {
  it("are one a second, and in a long run at most 600, evenly spread from the first to the last", () => {
    const ats = (seconds: number): number[] =>
      watched([() => 1], seconds * 1000, 0, 1, true).result.samples.map(({ at }) => at);
    expect(ats(10)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    const long = ats(5000);
    expect(long.length).toBeLessThanOrEqual(601);
    expect(long.length).toBeGreaterThan(300);
    expect(new Set(long.slice(1).map((at, i) => at - long[i]!))).toEqual(new Set([16]));
  });
});
