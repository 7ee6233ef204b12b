import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type ModelEngine, NO_COUNTS } from "../simulator/model-engine.ts";
import { Loads, Measure } from "./measure.ts";

function setUp(from = 0) {
  const time = { now: 0 };
  const measure = new Measure(() => time.now, from, 100_000);
  /** A request that comes, starts and ends at these milliseconds. */
  const request = (at: number, first: number, last: number, tokens = 2, kind?: string): void => {
    time.now = at;
    const measured = measure.begin({ kind, outputTokens: tokens }, 100);
    time.now = first;
    measured.started();
    time.now = last;
    measured.finished(100 + tokens);
  };
  return { time, measure, request };
}

describe("what is measured of requests", () => {
  it("is how long the first token, each further one and the last take, by the nearest rank", () => {
    const { measure, request } = setUp();
    for (let i = 1; i <= 10; i++) request(0, i * 10, i * 10 + 60, 4);
    const { ttft, tpot, e2e } = measure.result();
    expect(ttft).toEqual({ p50: 50, p90: 90, p99: 100, mean: 55, max: 100 });
    expect(tpot).toEqual({ p50: 20, p90: 20, p99: 20, mean: 20, max: 20 });
    expect(e2e.mean).toBe(115);
  });

  it("is per second from the first arrival to the last token", () => {
    const { measure, request } = setUp();
    request(5000, 5100, 6000, 30);
    request(6000, 6500, 9000, 10);
    const result = measure.result();
    expect([result.makespan, result.outputTokensPerSecond, result.requestsPerSecond]).toEqual([4, 10, 0.5]);
    expect([result.promptTokens, result.outputTokens]).toEqual([100, 20]);
  });

  it("leaves out what comes during the warm-up, however late it ends", () => {
    const { measure, request } = setUp(1000);
    request(999, 5000, 90_000);
    request(1000, 1100, 2000);
    const result = measure.result();
    expect([result.requests, result.finished, result.makespan, result.ttft.max]).toEqual([1, 1, 1, 100]);
  });

  it("counts a refused request apart from answered ones, without times", () => {
    const { measure, request, time } = setUp();
    request(0, 10, 20, 2, "a");
    time.now = 30;
    measure.begin({ kind: "b", outputTokens: 2 }, 100).rejected("saturated", 0);
    const result = measure.result();
    expect([result.requests, result.finished, result.rejected, result.makespan]).toEqual([2, 1, 1, 0.02]);
    expect(result.ttft.max).toBe(10);
    expect(result.kinds.map(({ kind, finished, rejected }) => [kind, finished, rejected])).toEqual([
      ["a", 1, 0],
      ["b", 0, 1],
    ]);
    expect(result.kinds[1]!.ttft.p90).toBeNaN();
  });

  it("is no number where nothing has ended", () => {
    const { makespan, outputTokensPerSecond, ttft, requests } = setUp().measure.result();
    expect([makespan, outputTokensPerSecond, ttft.p50, requests]).toEqual([Number.NaN, Number.NaN, Number.NaN, 0]);
  });

  it("has no time per token of an answer that is one token", () => {
    const { measure, request } = setUp();
    request(0, 10, 10, 1);
    expect(measure.result().tpot.mean).toBeNaN();
  });

  it("is by tenant and by priority, too: waits, and the tokens that appeared while requests arrived", () => {
    const time = { now: 0 };
    const measure = new Measure(() => time.now, 0, 1000);
    const begin = (tenant: string, priority: number) => measure.begin({ tenant, priority, outputTokens: 10 }, 100);
    const [a, b, c] = [begin("b", 0), begin("a", -10), begin("a", 100)];
    for (const one of [a, b, c]) one.placed(5);
    for (const one of [a, b, c]) {
      time.now = 500;
      one.started();
      one.produced(1);
    }
    time.now = 600;
    a.produced(1);
    b.rejected("evicted", 101);
    time.now = 1000;
    c.produced(1);
    a.finished(110);
    c.finished(110);
    const { tenants, priorities, wait, jain, wasted, refusals } = measure.result();
    expect(tenants.map(({ kind, servedPerSecond }) => [kind, servedPerSecond])).toEqual([
      ["a", 101],
      ["b", 102],
    ]);
    expect(priorities.map(({ kind, servedPerSecond, rejected }) => [kind, servedPerSecond, rejected])).toEqual([
      ["100", 101, 0],
      ["0", 102, 0],
      ["-10", 0, 1],
    ]);
    expect([wait.p50, refusals]).toEqual([5, { evicted: 1 }]);
    expect(jain).toBeCloseTo(1, 3);
    expect(wasted).toBeCloseTo(101 / 321, 12);
  });

  it("keeps 64 kinds apart, and counts the rest in the sums alone", () => {
    const { measure, request } = setUp();
    for (let i = 0; i < 70; i++) request(i, i, i + 1, 2, `kind ${i}`);
    const result = measure.result();
    expect([result.kinds.length, result.finished]).toEqual([64, 70]);
    const { measure: other } = setUp();
    for (let i = 0; i < 70; i++) other.begin({ tenant: `t${i}`, priority: i, outputTokens: 1 }, 1);
    const { tenants, priorities, requests } = other.result();
    expect([tenants.length, priorities.length, requests]).toEqual([64, 64, 70]);
  });
});

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
