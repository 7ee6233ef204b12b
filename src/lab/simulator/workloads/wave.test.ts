import { describe, expect, it } from "vitest";
import { quantile } from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { waveArrivals } from "./wave.ts";

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
