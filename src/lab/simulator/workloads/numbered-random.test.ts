import { describe, expect, it } from "vitest";
import { mean } from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { numberedRandom } from "./numbered-random.ts";

describe("numbered generators", () => {
  it("start differently for different numbers, and alike for the same", () => {
    const states = Array.from({ length: 100_000 }, (_, number) => numberedRandom(12_345, number).state);
    expect(new Set(states).size).toBe(100_000);
    expect(numberedRandom(12_345, 77).next()).toBe(numberedRandom(12_345, 77).next());
    expect(numberedRandom(12_346, 77).next()).not.toBe(numberedRandom(12_345, 77).next());
  });

  it("draw independently of their neighbours", () => {
    const firsts = Array.from({ length: 20_000 }, (_, number) => numberedRandom(1, number).next());
    expect(mean(firsts)).toBeCloseTo(0.5, 1.5);
    const together = mean(firsts.slice(1).map((value, i) => (value - 0.5) * (firsts[i]! - 0.5)));
    // The correlation of 20,000 independent pairs is below 3 / sqrt(20,000) nearly always.
    expect(Math.abs(together * 12)).toBeLessThan(0.021);
  });
});
