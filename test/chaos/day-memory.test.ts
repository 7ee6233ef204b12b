import { describe, expect, it } from "vitest";
import { growthPerDecision, type HeapSample, WARM_UP } from "./day-memory.ts";

/** Samples at every 1,000 decisions past the warm-up. */
const samples = (...bytes: readonly number[]): HeapSample[] =>
  bytes.map((size, i) => ({ decisions: WARM_UP + 1000 * i, bytes: size }));
const line = (slope: number, count = 12): number[] => Array.from({ length: count }, (_, i) => 5e7 + slope * 1000 * i);

describe("growthPerDecision", () => {
  it("is the slope of a line, whatever it is before the warm-up", () => {
    expect(growthPerDecision(samples(...line(200)))).toBe(200);
    expect(growthPerDecision(samples(...line(0)))).toBe(0);
    expect(growthPerDecision(samples(...line(-30)))).toBe(-30);
    const cold = [
      { decisions: 0, bytes: 1e6 },
      { decisions: WARM_UP - 1, bytes: 4e7 },
    ];
    expect(growthPerDecision([...cold, ...samples(...line(7))])).toBe(7);
  });

  it("is moved little by samples that are far off", () => {
    const odd = line(100);
    odd[3]! += 2e7;
    odd[11]! += 9e6;
    odd[6]! -= 4e6;
    expect(growthPerDecision(samples(...odd))).toBeCloseTo(100, -1);
    const noise = line(0).map((size, i) => size + (i % 3) * 3e5);
    expect(Math.abs(growthPerDecision(samples(...noise))!)).toBeLessThan(40);
  });

  it("is unknown without eight samples past the warm-up", () => {
    expect(growthPerDecision(samples(...line(100, 7)))).toBeUndefined();
    expect(growthPerDecision(samples(...line(100, 8)))).toBe(100);
    expect(growthPerDecision([])).toBeUndefined();
  });

  it("counts samples without a decision between them as nothing", () => {
    const twice = line(50).map((bytes, i) => ({ decisions: WARM_UP + 1000 * (i >> 1) * 2, bytes }));
    expect(growthPerDecision(twice)).toBeGreaterThan(40);
  });
});
