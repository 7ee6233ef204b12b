import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { DEFAULT_LATENCY, jittered, type LatencyConfig, LatencyModel } from "./latency.ts";

const random = new SeededRandom(1);
const model = (config: Partial<LatencyConfig>, slots = 16) =>
  new LatencyModel({ ...DEFAULT_LATENCY, prefillOverhead: 20, prefillTimePerToken: 0.1, ...config }, slots);

describe("D-65: time to first token", () => {
  it("per-token counts the tokens that were not cached", () => {
    expect(model({}).firstToken(random, 1000, 0, false, 1)).toBeCloseTo(120, 9);
    expect(model({}).firstToken(random, 1000, 960, false, 1)).toBeCloseTo(24, 9);
  });

  it("constant doesn't look at the prompt; an unset calculator means constant once that time is set", () => {
    expect(model({ latencyCalculator: "constant", timeToFirstToken: 50 }).firstToken(random, 1000, 0, false, 1)).toBe(
      50,
    );
    expect(model({ timeToFirstToken: 50 }).firstToken(random, 9, 0, false, 1)).toBe(50);
    expect(
      model({ latencyCalculator: "per-token", timeToFirstToken: 50 }).firstToken(random, 100, 0, false, 1),
    ).toBeCloseTo(30, 9);
  });

  it("a transfer takes its own time and knows no load", () => {
    const transfer = { kvCacheTransferTimePerToken: 0.01, timeFactorUnderLoad: 5 };
    expect(model(transfer).firstToken(random, 1000, 500, true, 16)).toBeCloseTo(10, 9);
    expect(
      model({ ...transfer, timeToFirstToken: 50, kvCacheTransferLatency: 7 }).firstToken(random, 1000, 0, true, 16),
    ).toBe(7);
  });

  it("time-scale multiplies everything", () => {
    const scaled = model({ timeScale: 0.1, kvCacheTransferTimePerToken: 0.01 });
    expect(scaled.firstToken(random, 1000, 0, false, 1)).toBeCloseTo(12, 9);
    expect(scaled.firstToken(random, 1000, 0, true, 1)).toBeCloseTo(1, 9);
    expect(scaled.nextToken(random, 1)).toBeCloseTo(1, 9);
  });
});

it("D-65: the load factor is linear between 1 and the full factor, and 1 for an engine of one slot", () => {
  const loaded = model({ timeFactorUnderLoad: 4 }, 4);
  expect([1, 2, 3, 4].map((running) => loaded.loadFactor(running))).toEqual([1, 2, 3, 4]);
  expect(loaded.nextToken(random, 4)).toBe(40);
  expect(model({ timeFactorUnderLoad: 4 }, 1).loadFactor(1)).toBe(1);
});

it("D-65: jitter is normal around the mean and clamped to 70 % of it", () => {
  const draws = Array.from({ length: 20_000 }, () => jittered(random, 100, 20));
  const mean = draws.reduce((a, b) => a + b) / draws.length;
  const deviation = Math.sqrt(draws.reduce((sum, x) => sum + (x - mean) ** 2, 0) / draws.length);
  expect(Math.abs(mean - 100)).toBeLessThan(1);
  expect(Math.abs(deviation - 20)).toBeLessThan(1);
  const wild = Array.from({ length: 1000 }, () => jittered(random, 100, 500));
  expect([Math.min(...wild), Math.max(...wild)]).toEqual([30, 170]);
  expect(jittered(random, 0, 5)).toBe(0);
});
