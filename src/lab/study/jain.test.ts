import { describe, expect, it } from "vitest";
import { jainIndex } from "./jain.ts";

describe("Jain's index", () => {
  it("is 1 for equal values, 1/n when one has everything, and in between by hand", () => {
    expect(jainIndex([5, 5, 5])).toBe(1);
    expect(jainIndex([9, 0, 0, 0])).toBe(0.25);
    expect(jainIndex([1, 2, 3])).toBeCloseTo(36 / (3 * 14), 12);
  });

  it("is no number where there is nothing to share", () => {
    for (const values of [[], [7], [0, 0]]) expect(jainIndex(values)).toBeNaN();
  });
});
