import { describe, expect, it } from "vitest";
import { instanceOf, pickFrom } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../../../base/clock/random.ts";
import { randomPicker } from "./random-picker.ts";

describe("random-picker", () => {
  it("picks each candidate equally often whatever its score, and so at each of the eight places (3.8)", () => {
    const picker = instanceOf(randomPicker);
    const random = new SeededRandom(5);
    const totals = Array.from({ length: 12 }, (_, i) => i);
    const places = Array.from({ length: 8 }, () => new Array<number>(12).fill(0));
    for (let i = 0; i < 30_000; i++) {
      const { order, tied } = pickFrom(picker, totals, random);
      expect(tied).toBe(12);
      expect(new Set(order).size).toBe(12);
      for (let place = 0; place < 8; place++) places[place]![order[place]!]!++;
    }
    // 2,500 each; five standard deviations are 240.
    for (const counts of places) for (const count of counts) expect(Math.abs(count - 2500)).toBeLessThan(240);
  });

  it("takes the only one there is", () => {
    expect(pickFrom(instanceOf(randomPicker), [0], new SeededRandom(1))).toEqual({ order: [0], tied: 1 });
  });

  it("offers as many as it is told, at least one", () => {
    expect(instanceOf(randomPicker).maxNumOfEndpoints).toBe(1);
    expect(instanceOf(randomPicker, { maxNumOfEndpoints: 3 }).maxNumOfEndpoints).toBe(3);
    expect(instanceOf(randomPicker, { maxNumOfEndpoints: -1 }).maxNumOfEndpoints).toBe(1);
  });
});
