import { describe, expect, it } from "vitest";
import { targets } from "../../../test/support/resources/made.cases.ts";
import { type Random, SeededRandom } from "../../base/clock/random.ts";
import { isMixed, TargetDraw } from "./target-draw.ts";

const DRAWS = 10_000;

/** How often each name came in 10,000 draws. */
function counts(texts: readonly string[], zeroSum: "uniform" | "none" = "none"): Record<string, number> {
  const draw = new TargetDraw(targets(...texts), zeroSum);
  const random = new SeededRandom(42);
  const found: Record<string, number> = {};
  for (let i = 0; i < DRAWS; i++) {
    const name = draw.draw(random) ?? "nothing";
    found[name] = (found[name] ?? 0) + 1;
  }
  return found;
}

/** Expects probabilities within the band of api-resources 2.4: |observed - P| <= 4.5 sqrt(P(1 - P) / n). */
function expectShares(found: Record<string, number>, shares: Record<string, number>): void {
  expect(Object.keys(found).sort()).toEqual(
    Object.keys(shares)
      .filter((name) => shares[name]! > 0)
      .sort(),
  );
  for (const [name, share] of Object.entries(shares))
    expect(Math.abs((found[name] ?? 0) / DRAWS - share), name).toBeLessThanOrEqual(
      4.5 * Math.sqrt((share * (1 - share)) / DRAWS),
    );
}

describe("TargetDraw (E-105, E-111, R-16)", () => {
  it("draws by weight over the sum, which need not be 100", () => {
    expectShares(counts(["a:1", "b:2", "c:7"]), { a: 0.1, b: 0.2, c: 0.7 });
    expectShares(counts(["a:1000000", "b:1000000", "c:2000000"]), { a: 1 / 3, b: 1 / 3, c: 1 / 3 });
    expectShares(counts(["a:1", "b:99"]), { a: 0.01, b: 0.99 });
  });

  it("is uniform without weights, and duplicates add up", () => {
    expectShares(counts(["a", "b", "c", "d"]), { a: 0.25, b: 0.25, c: 0.25, d: 0.25 });
    expectShares(counts(["a", "a", "b", "c"]), { a: 0.5, b: 0.25, c: 0.25 });
  });

  it("always draws the only target", () => {
    expect(counts(["a:3"])).toEqual({ a: DRAWS });
    expect(counts(["a"])).toEqual({ a: DRAWS });
  });

  it("never draws one without a weight from a mixed list, and knows such lists", () => {
    expectShares(counts(["a", "b:1", "c:3"]), { a: 0, b: 0.25, c: 0.75 });
    expect([["a", "b:1"], ["a:1", "b:1"], ["a", "b"], []].map((texts) => isMixed(targets(...texts)))).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });

  it("with a sum of 0 draws nothing, or any with the same chance (R-17, X-1)", () => {
    expect(counts(["a:0", "b:0"], "none")).toEqual({ nothing: DRAWS });
    expectShares(counts(["a:0", "b:0"], "uniform"), { a: 0.5, b: 0.5 });
    expectShares(counts(["a:0", "b"], "uniform"), { a: 0.5, b: 0.5 });
    expect(counts([], "uniform")).toEqual({ nothing: DRAWS });
  });

  it("takes a weight that is negative, no whole number or not finite for 0, and one too large for the largest", () => {
    const odd = ["a:-5", "b:1.5", "c:NaN", "d:Infinity", "e:1"];
    expect(counts(odd)).toEqual({ e: DRAWS });
    expect(counts(["a:-5", "b:0.5"])).toEqual({ nothing: DRAWS });
    expectShares(counts(["a:9e15", "b:1000000"]), { a: 0.5, b: 0.5 });
  });

  it("gives target i a half-open interval: the ends of the range fall where they should", () => {
    const at = (point: number): Random => ({ next: () => point / 10, below: () => point });
    const draw = new TargetDraw(targets("a:0", "b:4", "c:0", "d:6", "e:0"), "none");
    expect([0, 3, 4, 9].map((point) => draw.draw(at(point)))).toEqual(["b", "b", "d", "d"]);
  });
});
