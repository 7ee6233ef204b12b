import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { instanceOf, pickFrom, picksFrom } from "../../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { maxScorePicker, randomPicker, roundRobinPicker, weightedRandomPicker } from "./pickers.ts";

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
    const pick = picksFrom(picker, totals, random);
    const tiedCounts = new Set<number>();
    for (let i = 0; i < 30_000; i++) {
      const { order, tied } = pick();
      tiedCounts.add(tied);
      for (let place = 0; place < 8; place++) places[place]![order[place]!]!++;
    }
    expect([...tiedCounts]).toEqual([12]);
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
    const pick = picksFrom(picker, totals, random);
    const tiedCounts = new Set<number>();
    for (let i = 0; i < 30_000; i++) {
      const { order, tied } = pick();
      tiedCounts.add(tied);
      first[order[0] === 1 ? 0 : 1]!++;
      third[order[2]!]!++;
    }
    expect([...tiedCounts]).toEqual([2]);
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

describe("random-picker", () => {
  it("picks each candidate equally often whatever its score, and so at each of the eight places (scheduling 3.8)", () => {
    const picker = instanceOf(randomPicker);
    const random = new SeededRandom(5);
    const totals = Array.from({ length: 12 }, (_, i) => i);
    const places = Array.from({ length: 8 }, () => new Array<number>(12).fill(0));
    const pick = picksFrom(picker, totals, random);
    const tiedCounts = new Set<number>();
    const distinct = new Set<number>();
    for (let i = 0; i < 30_000; i++) {
      const { order, tied } = pick();
      tiedCounts.add(tied);
      distinct.add(new Set(order).size);
      for (let place = 0; place < 8; place++) places[place]![order[place]!]!++;
    }
    expect([[...tiedCounts], [...distinct]]).toEqual([[12], [12]]);
    // 2,500 each; five standard deviations are 240.
    for (const counts of places) for (const count of counts) expect(Math.abs(count - 2500)).toBeLessThan(240);
  });

  it("takes the only one there is", () => {
    expect(pickFrom(instanceOf(randomPicker), [0], new SeededRandom(1))).toEqual({ order: [0], tied: 1 });
  });

  it("offers the configured number of endpoints, at least one", () => {
    expect(instanceOf(randomPicker).maxNumOfEndpoints).toBe(1);
    expect(instanceOf(randomPicker, { maxNumOfEndpoints: 3 }).maxNumOfEndpoints).toBe(3);
    expect(instanceOf(randomPicker, { maxNumOfEndpoints: -1 }).maxNumOfEndpoints).toBe(1);
  });
});

/** How often each candidate came first, and second. */
function draw(totals: readonly number[], times: number, seed: number): { first: number[]; second: number[] } {
  const picker = instanceOf(weightedRandomPicker);
  const random = new SeededRandom(seed);
  const first = totals.map(() => 0);
  const second = totals.map(() => 0);
  const pick = picksFrom(picker, totals, random);
  for (let i = 0; i < times; i++) {
    const { order } = pick();
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

describe("round-robin-picker", () => {
  it("takes the candidates in turn, whatever their totals, and the next ones behind", () => {
    const picker = instanceOf(roundRobinPicker);
    const random = new SeededRandom(1);
    const orders = Array.from({ length: 4 }, () => pickFrom(picker, [0, 9, 5], random));
    expect(orders.map(({ order }) => order)).toEqual([
      [0, 1, 2],
      [1, 2, 0],
      [2, 0, 1],
      [0, 1, 2],
    ]);
    expect(orders.map(({ tied }) => tied)).toEqual([1, 1, 1, 1]);
    expect(pickFrom(picker, [1], random).order).toEqual([0]);
  });

  it("goes on from the turn it is told, as a replay needs it", () => {
    const picker = instanceOf(roundRobinPicker);
    const random = new SeededRandom(1);
    pickFrom(picker, [0, 0, 0], random);
    const turn = picker.memory!;
    const next = pickFrom(picker, [0, 0, 0], random);
    const replayed = instanceOf(roundRobinPicker);
    replayed.memory = turn;
    expect(pickFrom(replayed, [0, 0, 0], random)).toEqual(next);
    expect(next.order).toEqual([1, 2, 0]);
  });
});
