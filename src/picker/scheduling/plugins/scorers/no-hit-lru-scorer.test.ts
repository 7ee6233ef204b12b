import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, scoresOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { COLD_USE_ORDER, PREFIX_MATCHED_BLOCKS } from "../../../../base/plugin/keys.ts";
import { noHitLruScorer } from "./no-hit-lru-scorer.ts";

const uses = (order: number[], matched: number[] = order.map(() => 0)) =>
  columnsOf(
    order.map((_, slot) => endpointOf(slot)),
    [
      [COLD_USE_ORDER, order],
      [PREFIX_MATCHED_BLOCKS, matched],
    ],
  );

describe("no-hit-lru-scorer", () => {
  it("S-40: a prompt that somebody holds scores 0.5 everywhere", () => {
    expect(scoresOf(noHitLruScorer, uses([0, 2, 1], [0, 3, 0]))).toEqual([0.5, 0.5, 0.5]);
    expect(scoresOf(noHitLruScorer, uses([1], [1]))).toEqual([0.5]);
  });

  it("S-40: those never used come first, in their order, then the one used longest ago (3.9.3)", () => {
    expect(scoresOf(noHitLruScorer, uses([0, 0, 0, 0, 0]))).toEqual([1, 0.75, 0.5, 0.25, 0]);
    expect(scoresOf(noHitLruScorer, uses([2, 0, 1, 3, 0]))).toEqual([0.25, 1, 0.5, 0, 0.75]);
    expect(scoresOf(noHitLruScorer, uses([2, 1, 3]))).toEqual([0.5, 1, 0]);
  });

  it("counts places among all that are remembered, candidates or not, and goes no lower than 0 (3.9.3)", () => {
    expect(scoresOf(noHitLruScorer, uses([4, 0, 9]))).toEqual([0, 1, 0]);
    expect(scoresOf(noHitLruScorer, uses([2, 5, 0, 0, 0]))).toEqual([0, 0, 1, 0.75, 0.5]);
  });

  it("scores an only candidate 1, used or not (3.9.3)", () => {
    expect(scoresOf(noHitLruScorer, uses([7]))).toEqual([1]);
    expect(scoresOf(noHitLruScorer, uses([0]))).toEqual([1]);
  });

  it("never scores a later used one above an earlier one, nor any above one never used", () => {
    const order = fc.uniqueArray(fc.integer({ min: 1, max: 40 }), { maxLength: 12 });
    fc.assert(
      fc.property(order, fc.nat({ max: 5 }), (used, unused) => {
        const places = [...used, ...new Array<number>(unused).fill(0)];
        fc.pre(places.length > 0);
        const scores = scoresOf(noHitLruScorer, uses(places));
        for (let i = 0; i < places.length; i++)
          for (let j = 0; j < places.length; j++)
            if (places[i]! < places[j]!) expect(scores[i]).toBeGreaterThanOrEqual(scores[j]!);
        if (unused > 0 || used.includes(1)) expect(Math.max(...scores)).toBe(1);
      }),
    );
  });
});
