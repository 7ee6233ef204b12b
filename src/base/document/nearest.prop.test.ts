import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { didYouMean, editDistance, nearest, nearestFew } from "./nearest.ts";

describe("nearest", () => {
  it.each([
    ["wieght", ["name", "weight", "height"], "weight"],
    ["pluginref", ["name", "pluginRef"], "pluginRef"],
    ["qeueu-scorer", ["queue-scorer", "token-scorer"], "queue-scorer"],
    ["poolname", ["pool-name", "pool-namespace"], "pool-name"],
    ["x", ["v", "port"], undefined],
    ["ab", ["cd"], undefined],
    ["abc", ["xyz"], undefined],
    ["completely-different", ["queue-scorer"], undefined],
    ["", ["port"], undefined],
  ])("takes %j of %j for %j", (word, candidates, expected) => {
    expect(nearest(word, candidates)).toBe(expected);
  });

  it("finds a few with most in common, words before letters", () => {
    const types = ["queue-scorer", "prefix-cache-scorer", "prefix-decider", "max-score-picker", "openai-parser"];
    expect(nearestFew("prefix-scorer", types, 3)).toEqual(["prefix-cache-scorer", "prefix-decider", "queue-scorer"]);
    expect(nearestFew("opnai", types, 1)).toEqual(["openai-parser"]);
    expect(nearestFew("", types, 2)).toHaveLength(2);
    expect(nearestFew("x".repeat(10_000), types, 9)).toHaveLength(5);
  });

  it("ends a message, or adds nothing", () => {
    expect(didYouMean("nmae", ["name"])).toBe("; did you mean `name`?");
    expect(didYouMean("zzzz", ["name"])).toBe("");
  });

  it("looks at no word longer than 64 characters", () => {
    const long = "a".repeat(65);
    expect(nearest(long, [long])).toBeUndefined();
    expect(nearest("a".repeat(64), [long, "a".repeat(63)])).toBe("a".repeat(63));
  });
});

/** Optimal string alignment by its definition, without a table. */
function slowDistance(a: string, b: string): number {
  if (a === "" || b === "") return a.length + b.length;
  const same = a.at(-1) === b.at(-1);
  const options = [
    slowDistance(a.slice(0, -1), b) + 1,
    slowDistance(a, b.slice(0, -1)) + 1,
    slowDistance(a.slice(0, -1), b.slice(0, -1)) + (same ? 0 : 1),
  ];
  if (a.length > 1 && b.length > 1 && a.at(-1) === b.at(-2) && a.at(-2) === b.at(-1))
    options.push(slowDistance(a.slice(0, -2), b.slice(0, -2)) + 1);
  return Math.min(...options);
}

const word = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 6 });

describe("editDistance", () => {
  it("counts a swap of neighbours once", () => {
    expect(editDistance("wieght", "weight")).toBe(1);
    expect(editDistance("kitten", "sitting")).toBe(3);
  });

  it("agrees with the definition", () => {
    fc.assert(fc.property(word, word, (a, b) => editDistance(a, b) === slowDistance(a, b)));
  });

  it("finds a word again after one typing error", () => {
    const long = fc.string({ unit: fc.constantFrom(..."abcdefghij"), minLength: 4, maxLength: 20 });
    fc.assert(
      fc.property(long, fc.nat(), fc.constantFrom(..."xyz"), (right, at, letter) => {
        const i = at % right.length;
        expect(nearest(right.slice(0, i) + letter + right.slice(i), [right, "zzzzzzzzzzzzzzzzzzzzzzzz"])).toBe(right);
        expect(nearest(right.slice(0, i) + right.slice(i + 1), [right])).toBe(right);
      }),
    );
  });
});
