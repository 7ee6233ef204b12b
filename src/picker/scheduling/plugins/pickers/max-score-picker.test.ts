import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { instanceOf, pickFrom } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../../../base/clock/random.ts";
import { maxScorePicker } from "./max-score-picker.ts";

/** Pearson's statistic of counts that should all be equal. */
function chiSquare(counts: readonly number[]): number {
  const expected = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
}

describe("max-score-picker", () => {
  it("S-31: equal totals are picked uniformly over 30,000 picks, and so is each of the eight places", () => {
    const picker = instanceOf(maxScorePicker);
    const random = new SeededRandom(7);
    const totals = new Array<number>(12).fill(2.5);
    const places = Array.from({ length: 8 }, () => new Array<number>(12).fill(0));
    for (let i = 0; i < 30_000; i++) {
      const { order, tied } = pickFrom(picker, totals, random);
      expect(tied).toBe(12);
      for (let place = 0; place < 8; place++) places[place]![order[place]!]!++;
    }
    // 11 degrees of freedom: above 31.3 once in a thousand.
    for (const counts of places) expect(chiSquare(counts)).toBeLessThan(31.3);
  });

  it("S-31: ties below and among the best are broken uniformly too", () => {
    const picker = instanceOf(maxScorePicker);
    const random = new SeededRandom(8);
    // Two share the first place, ten the third.
    const totals = [1, 5, 1, 1, 1, 5, 1, 1, 1, 1, 1, 1];
    const first = [0, 0];
    const third = new Array<number>(12).fill(0);
    for (let i = 0; i < 30_000; i++) {
      const { order, tied } = pickFrom(picker, totals, random);
      expect(tied).toBe(2);
      first[order[0] === 1 ? 0 : 1]!++;
      third[order[2]!]!++;
    }
    expect(chiSquare(first)).toBeLessThan(10.8);
    expect([third[1], third[5]]).toEqual([0, 0]);
    expect(chiSquare(third.filter((_, i) => i !== 1 && i !== 5))).toBeLessThan(27.9);
  });

  it("agrees with a full sort on the first eight places, and leaves a permutation", () => {
    const picker = instanceOf(maxScorePicker);
    const total = fc.oneof(fc.integer({ min: 0, max: 3 }), fc.double({ min: 0, max: 9, noNaN: true }));
    fc.assert(
      fc.property(fc.array(total, { minLength: 1, maxLength: 60 }), fc.integer(), (totals, seed) => {
        const { order, tied } = pickFrom(picker, totals, new SeededRandom(seed));
        const sorted = [...totals].sort((a, b) => b - a);
        expect(order.slice(0, 8).map((i) => totals[i])).toEqual(sorted.slice(0, 8));
        expect([...order].sort((a, b) => a - b)).toEqual(totals.map((_, i) => i));
        expect(tied).toBe(totals.filter((value) => value === sorted[0]).length);
      }),
      { numRuns: 1000 },
    );
  });

  it("offers one endpoint unless configured, and corrects less than one", () => {
    expect(instanceOf(maxScorePicker).maxNumOfEndpoints).toBe(1);
    expect(instanceOf(maxScorePicker, { maxNumOfEndpoints: 3 }).maxNumOfEndpoints).toBe(3);
    expect(instanceOf(maxScorePicker, { maxNumOfEndpoints: -1 }).maxNumOfEndpoints).toBe(1);
    expect(maxScorePicker.parameters.safeParse({ maxNumOfEndpoints: 1.5 }).success).toBe(false);
  });
});
