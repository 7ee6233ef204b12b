import { describe, expect, it } from "vitest";
import { mean, quantile } from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { poissonArrivals, waveArrivals } from "./arrivals.ts";

function arrivals(rate: number, untilMs: number, startMs = 0): { times: number[]; mostPending: number } {
  const clock = new VirtualClock();
  clock.advance(startMs);
  const times: number[] = [];
  let mostPending = 0;
  const port = { clock, random: new SeededRandom(4), send: () => {} };
  poissonArrivals(port, rate, untilMs, () => {
    times.push(clock.now());
    mostPending = Math.max(mostPending, clock.pending);
  });
  mostPending = Math.max(mostPending, clock.pending);
  clock.run();
  return { times, mostPending };
}

describe("Poisson arrivals", () => {
  it("come at the rate, with gaps that are exponential", () => {
    const { times } = arrivals(100, 200_000);
    expect(times.length / 200).toBeCloseTo(100, -1);
    const gaps = times.slice(1).map((at, i) => at - times[i]!);
    const average = mean(gaps);
    // The deviation of an exponential distribution is its mean, and 1/e of it lies beyond.
    expect(Math.sqrt(mean(gaps.map((gap) => (gap - average) ** 2))) / average).toBeCloseTo(1, 1);
    expect(gaps.filter((gap) => gap > average).length / gaps.length).toBeCloseTo(Math.exp(-1), 2);
    expect(Math.max(...times)).toBeLessThan(200_000);
  });

  it("are armed one at a time", () => {
    expect(arrivals(1000, 10_000).mostPending).toBe(1);
  });

  it("begin where the clock stands", () => {
    const { times } = arrivals(100, 20_000, 15_000);
    expect(Math.min(...times)).toBeGreaterThanOrEqual(15_000);
    expect(times.length / 5).toBeCloseTo(100, -1.5);
  });
});

function wave(count: number, fromMs: number, widthMs: number): number[] {
  const clock = new VirtualClock();
  const times: number[] = [];
  const port = { clock, random: new SeededRandom(8), send: () => {} };
  waveArrivals(port, count, fromMs, widthMs, () => {
    times.push(clock.now());
    expect(clock.pending).toBe(0);
  });
  clock.run();
  return times;
}

describe("a wave of arrivals", () => {
  it("has exactly so many, one armed at a time, evenly over its window", () => {
    const times = wave(20_000, 3000, 500);
    expect(times).toHaveLength(20_000);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    for (const share of [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1])
      expect(Math.abs(quantile(times, share) - (3000 + 500 * share))).toBeLessThan(10);
    expect(times[0]).toBeGreaterThanOrEqual(3000);
    expect(times.at(-1)).toBeLessThanOrEqual(3500);
  });

  it("may be empty, alone, or all at the same moment", () => {
    expect(wave(0, 0, 100)).toEqual([]);
    expect(wave(1, 10, 100)).toHaveLength(1);
    expect(wave(3, 10, 0)).toEqual([10, 10, 10]);
  });
});
