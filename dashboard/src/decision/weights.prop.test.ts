import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ranked, roomOf, type Scored } from "./weights.ts";

const score = fc.integer({ min: 0, max: 20 }).map((value) => value / 20);
const weight = fc.integer({ min: 0, max: 12 }).map((value) => value / 2);

/** Candidates of a decision, the pick first, and the weights. */
const decision = fc
  .tuple(fc.array(fc.tuple(score, score, score), { minLength: 1, maxLength: 6 }), fc.tuple(weight, weight, weight))
  .map(([scores, weights]): [Scored[], number[]] => {
    const candidates = scores.map((of, at) => ({ id: `e${at}`, scores: of, total: 0 }));
    return [ranked(candidates, weights).map(({ now, ...rest }) => ({ ...rest, total: now })), weights];
  });

/** The best total when one weight is another. */
const best = (candidates: readonly Scored[], weights: readonly number[], at: number, to: number) =>
  ranked(candidates, weights.with(at, to));

describe("the weights at which another candidate would have won", () => {
  it("are those at which the order turns, and the pick holds in between", () => {
    fc.assert(
      fc.property(decision, ([candidates, weights]) => {
        roomOf(candidates, weights).forEach(({ below, above }, at) => {
          const pick = candidates[0]!.id;
          const totalOf = (to: number, id: string) =>
            best(candidates, weights, at, to).find((one) => one.id === id)!.now;
          const wins = (to: number) =>
            best(candidates, weights, at, to).every(({ now }) => now <= totalOf(to, pick) + 1e-9);
          for (const part of [0, 0.5, 0.999]) {
            const low = below?.weight ?? 0;
            expect(wins(weights[at]! + (low - weights[at]!) * part)).toBe(true);
            expect(wins(weights[at]! + ((above?.weight ?? 100) - weights[at]!) * part)).toBe(true);
          }
          if (above !== undefined)
            expect(totalOf(above.weight + 1, above.id)).toBeGreaterThan(totalOf(above.weight + 1, pick));
          if (below !== undefined && below.weight > 0.001)
            expect(totalOf(below.weight / 2, below.id)).toBeGreaterThan(totalOf(below.weight / 2, pick));
        });
      }),
    );
  });

  it("are named with the candidate that wins there", () => {
    const candidates = [
      { id: "a", scores: [1, 0], total: 2 },
      { id: "b", scores: [0.5, 1], total: 1.5 },
      { id: "c", scores: [0, 0.1], total: 0.05 },
    ];
    const [first, second] = roomOf(candidates, [2, 0.5]);
    expect(first).toEqual({ below: { id: "b", weight: 1 }, above: undefined });
    expect(second).toEqual({ below: undefined, above: { id: "b", weight: 1 } });
    expect(roomOf([], [1])).toEqual([{ below: undefined, above: undefined }]);
  });
});
