import { describe, expect, it } from "vitest";
import { sameParameters } from "./same-parameters.ts";

/** A new value each time. */
type Make = () => unknown;

const circle = () => {
  const value: { self?: unknown } = {};
  value.self = value;
  return value;
};

describe("sameParameters", () => {
  it.each<readonly [string, Make]>([
    ["plain data", () => ({ a: [1, "x", null, { b: true }], c: {} })],
    ["NaN, infinities and -0", () => [Number.NaN, Number.POSITIVE_INFINITY, -0]],
    ["large integers", () => ({ size: 2n ** 70n })],
    ["regular expressions", () => /a+/gi],
    ["dates", () => new Date(5)],
    ["maps and sets", () => ({ m: new Map([["a", { b: 1 }]]), s: new Set([1, 2]) })],
    ["objects without a prototype", () => Object.assign(Object.create(null), { a: 1 })],
    ["a key called __proto__", () => JSON.parse('{"__proto__":{"a":1}}')],
    ["nothing", () => undefined],
  ])("finds two of the same: %s", (_, make) => {
    expect(sameParameters(make(), make())).toBe(true);
  });

  it("finds the same in another order of keys", () => {
    expect(sameParameters({ a: 1, b: 2 }, { b: 2, a: 1 })).toBe(true);
  });

  it.each<readonly [string, unknown, unknown]>([
    ["a value", { a: [1] }, { a: [2] }],
    ["a value more", { a: 1 }, { a: 1, b: 2 }],
    ["a value that is undefined and one that is null", { a: undefined }, { a: null }],
    ["NaN and null, which JSON writes the same", Number.NaN, null],
    ["0 and -0", { a: 0 }, { a: -0 }],
    ["1 and 1n", 1, 1n],
    ["a number and its text", { a: 1 }, { a: "1" }],
    ["a list and an object", [], {}],
    ["lengths", [1, undefined], [1]],
    ["expressions", /a/, /b/],
    ["flags", /a/, /a/i],
    ["dates", new Date(1), new Date(2)],
    ["what maps hold", new Map([["a", 1]]), new Map([["a", 2]])],
    ["what sets hold", new Set(["a"]), new Set(["b"])],
    ["a map and a set", new Map(), new Set()],
    ["functions", () => 1, () => 1],
    ["inherited names", JSON.parse('{"__proto__":1}'), { a: 1 }],
    ["bytes", new Uint8Array([1]), new Uint8Array([2])],
  ])("tells apart %s", (_, a, b) => {
    expect(sameParameters(a, b)).toBe(false);
    expect(sameParameters(b, a)).toBe(false);
  });

  it("gives up on circles", () => {
    expect(sameParameters(circle(), circle())).toBe(false);
  });
});
