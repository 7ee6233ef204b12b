import { describe, expect, it } from "vitest";
import { amount, fits, LearnedSize } from "./arithmetic.ts";

const KIB = 1024;

describe("amount (A-1, async-processor 2.1 and 2.4)", () => {
  it.each([
    ["B-1, the worked example", 5 * 10, 1 - 0.3, 0.1, "requests", 30],
    ["B-2 in bytes", 1024 * KIB, 0.7, 0.1, "bytes", 614.4 * KIB],
    ["B-2 in tokens", 1024, 0.7, 0.1, "tokens", 614.4],
    ["B-3, D = B", 50, 0.05, 0.05, "requests", 0],
    ["B-4, just above B", 50, 0.06, 0.05, "requests", 0],
    ["B-5, where doubles fall short", 50, 1 - 0.05, 0.05, "requests", 45],
    ["B-6, D clamped", 10, 1.3, 0.1, "requests", 9],
    ["B-7, D of something unreadable", 50, 0, 0.05, "requests", 0],
    ["NaN", 50, Number.NaN, 0.05, "requests", 0],
    ["-Inf", 50, Number.NEGATIVE_INFINITY, 0.05, "requests", 0],
    ["no capacity", 0, 1, 0, "requests", 0],
    ["batch 10, B 0.1, D 0.2 (the reference got 0)", 10, 0.2, 0.1, "requests", 1],
  ] as const)("%s", (_, maxSys, budget, baseline, unit, expected) => {
    expect(amount({ maxSys, budget, baseline, unit })).toBeCloseTo(expected, 6);
  });

  it("is exact wherever the exact product is whole, on a grid of 1 %", () => {
    let wrong = 0;
    for (let f = 0; f <= 100; f++)
      for (let b = 0; b < 100; b++) {
        const exact = 100 - f - b;
        const got = amount({ maxSys: 100, budget: 1 - f / 100, baseline: b / 100, unit: "requests" });
        if (got !== Math.max(0, exact)) wrong++;
      }
    expect(wrong).toBe(0);
  });
});

describe("fits (async-processor 2.3, rules 2 to 4)", () => {
  const base = { allowance: 0, cost: 1, most: 45, open: true, idle: true };

  it("B-4: one goes alone just above B, none beside it", () => {
    expect(fits({ ...base, allowance: 0 })).toBe(true);
    expect(fits({ ...base, allowance: 0, idle: false })).toBe(false);
    expect(fits({ ...base, allowance: 0, open: false })).toBe(false);
  });

  it("B-2: r1 of 600 KiB fits into 614.4, r2 of 100 does not fit behind it", () => {
    const allowance = 614.4;
    expect(fits({ ...base, allowance, cost: 600, most: 921.6 })).toBe(true);
    expect(fits({ ...base, allowance: allowance - 600, cost: 100, most: 921.6, idle: false })).toBe(false);
  });

  it("what could never fit goes alone; what fits later waits (A-11)", () => {
    expect(fits({ ...base, allowance: 500, cost: 2000, most: 921.6 })).toBe(true);
    expect(fits({ ...base, allowance: 500, cost: 2000, most: 921.6, idle: false })).toBe(false);
    expect(fits({ ...base, allowance: 500, cost: 600, most: 921.6 })).toBe(false);
  });
});

/** A size that has learned from these, with 64 workers and a ceiling of 0.8. */
function learned(...samples: readonly (readonly [taken: number, own: number])[]): LearnedSize {
  const size = new LearnedSize();
  for (const [taken, own] of samples) size.learn({ taken, own, ceiling: 0.8, workers: 64 });
  return size;
}

describe("LearnedSize", () => {
  it("is a quarter of the workers until something of ours runs", () => {
    expect(learned().of(64)).toBe(16);
    expect(learned([0, 0], [0.9, 0]).of(64)).toBe(16);
  });

  it("is what runs over the share that is taken, and never above the workers", () => {
    expect(learned([0.25, 12]).of(64)).toBe(48);
    expect(learned([0.25, 12]).of(40)).toBe(40);
    // Others came: it holds no less than before.
    expect(learned([0.25, 12], [0.5, 12]).of(64)).toBe(48);
  });

  it("shrinks above the ceiling to what the figure proves, unless others are the cause", () => {
    expect(learned([0.25, 15], [0.9, 18]).of(64)).toBe(20);
    expect(learned([0.25, 15], [0.9, 14]).of(64)).toBe(60);
    expect(learned([0.25, 15], [1, 30]).of(64)).toBe(30);
  });

  it("doubles while a figure does not show what runs, as one of waiting requests", () => {
    expect(learned([0, 16]).of(64)).toBe(32);
    expect(learned([0, 16], [0.01, 30]).of(64)).toBe(60);
  });

  it("grows slowly where the room that is left is less than one request of its size", () => {
    expect(learned([0.75, 2]).of(64)).toBe(20);
    expect(learned([0.7, 2]).of(64)).toBe(16);
    expect(learned([0.8, 2]).of(64)).toBe(20);
  });
});
