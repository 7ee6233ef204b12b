import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { instanceOf, pickFrom } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../../../base/clock/random.ts";
import { weightedRandomPicker } from "./weighted-random-picker.ts";

/** How often each candidate came first, and second. */
function draw(totals: readonly number[], times: number, seed: number): { first: number[]; second: number[] } {
  const picker = instanceOf(weightedRandomPicker);
  const random = new SeededRandom(seed);
  const first = totals.map(() => 0);
  const second = totals.map(() => 0);
  for (let i = 0; i < times; i++) {
    const { order } = pickFrom(picker, totals, random);
    first[order[0]!]!++;
    second[order[1]!]!++;
  }
  return { first, second };
}

describe("weighted-random-picker", () => {
  it("S-32: totals 3 : 1 are picked 3 : 1, within one percent", () => {
    for (const scale of [1, 0.001, 1e-12, 1000]) {
      const { first } = draw([3 * scale, scale], 60_000, 3);
      expect(Math.abs(first[0]! / 60_000 - 0.75)).toBeLessThan(0.01);
    }
  });

  it("S-32: draws without replacement: the second place goes by the totals of those that are left", () => {
    const { first, second } = draw([2, 1, 1], 60_000, 4);
    expect(Math.abs(first[0]! / 60_000 - 0.5)).toBeLessThan(0.01);
    // Second after another one, whose chance is 1/4 each: 2 * 1/4 * 2/3.
    expect(Math.abs(second[0]! / 60_000 - 1 / 3)).toBeLessThan(0.01);
  });

  it("S-32: all totals 0 are uniform, and so are negative and unknown ones", () => {
    const totals = [0, -1, Number.NaN, 0, 0];
    // 6,000 each; five standard deviations are 350.
    for (const counts of Object.values(draw(totals, 30_000, 5)))
      for (const count of counts) expect(Math.abs(count - 6000)).toBeLessThan(350);
    expect(pickFrom(instanceOf(weightedRandomPicker), totals, new SeededRandom(1)).tied).toBe(5);
  });

  it("never prefers a total of 0 to one above, however small", () => {
    const { first, second } = draw([0, 1e-9, 0, 0], 3000, 6);
    expect(first).toEqual([0, 3000, 0, 0]);
    for (const i of [0, 2, 3]) expect(second[i]).toBeGreaterThan(800);
  });

  it("goes by the totals even when the least number is drawn", () => {
    const least = { next: () => 0, below: () => 0 };
    expect(pickFrom(instanceOf(weightedRandomPicker), [1, 3, 2], least).order).toEqual([1, 2, 0]);
  });

  it("S-32: maxNumOfEndpoints 2 offers two distinct endpoints; 1 unless configured, less is corrected", () => {
    expect(instanceOf(weightedRandomPicker, { maxNumOfEndpoints: 2 }).maxNumOfEndpoints).toBe(2);
    expect(instanceOf(weightedRandomPicker).maxNumOfEndpoints).toBe(1);
    expect(instanceOf(weightedRandomPicker, { maxNumOfEndpoints: 0 }).maxNumOfEndpoints).toBe(1);
  });

  it("leaves a permutation, those with a total first, and draws the same from the same state", () => {
    const total = fc.oneof(
      fc.constantFrom(0, -1, Number.NaN, Number.POSITIVE_INFINITY),
      fc.double({ min: 0, max: 9, noNaN: true }),
    );
    fc.assert(
      fc.property(fc.array(total, { minLength: 1, maxLength: 60 }), fc.integer(), (totals, seed) => {
        const picker = instanceOf(weightedRandomPicker);
        const { order, tied } = pickFrom(picker, totals, new SeededRandom(seed));
        expect([...order].sort((a, b) => a - b)).toEqual(totals.map((_, i) => i));
        const weighted = totals.filter((value) => value > 0).length;
        expect(tied).toBe(weighted || totals.length);
        for (const [place, i] of order.entries()) expect(totals[i]! > 0).toBe(place < weighted);
        pickFrom(picker, totals.toReversed(), new SeededRandom(9));
        expect(pickFrom(picker, totals, new SeededRandom(seed)).order).toEqual(order);
      }),
    );
  });
});
