import { describe, expect, it } from "vitest";
import { mean } from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { poissonArrivals } from "./poisson.ts";

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
