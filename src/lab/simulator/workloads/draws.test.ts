import { describe, expect, it } from "vitest";
import { mean, quantile } from "../../../../test/support/simulator/workloads/workloads.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { drawTokens, numberedRandom } from "./draws.ts";

function draws(lengths: Parameters<typeof drawTokens>[1]): number[] {
  const random = new SeededRandom(6);
  return Array.from({ length: 50_000 }, () => drawTokens(random, lengths));
}

describe("token lengths", () => {
  it("have the mean and the spread of their log-normal distribution, in whole tokens", () => {
    const values = draws({ mean: 1000, sigma: 0.7, least: 1, most: 1_000_000 });
    expect(Math.abs(mean(values) / 1000 - 1)).toBeLessThan(0.02);
    expect(Math.abs(quantile(values, 0.5) / (1000 * Math.exp(-0.245)) - 1)).toBeLessThan(0.02);
    expect(Math.abs(quantile(values, 0.8413) / quantile(values, 0.5) / Math.exp(0.7) - 1)).toBeLessThan(0.03);
    expect(values.every(Number.isInteger)).toBe(true);
  });

  it("are cut at both ends", () => {
    const values = draws({ mean: 100, sigma: 2, least: 10, most: 200 });
    expect(Math.min(...values)).toBe(10);
    expect(Math.max(...values)).toBe(200);
  });

  it("are all the mean without a spread", () => {
    expect(new Set(draws({ mean: 300, sigma: 0, least: 1, most: 1000 }))).toEqual(new Set([300]));
  });
});

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
