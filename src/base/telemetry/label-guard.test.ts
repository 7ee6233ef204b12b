import { describe, expect, it } from "vitest";
import { LabelGuard } from "./label-guard.ts";

describe("LabelGuard", () => {
  it("lets the first 1,000 distinct values pass and folds the 1,001st for good (S-96, bound)", () => {
    const guard = new LabelGuard(1000);
    for (let i = 0; i < 1000; i++) expect(guard.admit(`model-${i}`)).toBe(`model-${i}`);
    expect(guard.admit("model-1000")).toBe("other");
    expect(guard.admit("model-999")).toBe("model-999");
    expect(guard.admit("model-1000")).toBe("other");
  });

  it("takes the empty value without counting it", () => {
    const guard = new LabelGuard(1);
    expect(guard.admit("")).toBe("");
    expect(guard.admit("a")).toBe("a");
    expect(guard.admit("")).toBe("");
  });

  it("folds values too long to keep and halves of surrogate pairs", () => {
    const guard = new LabelGuard(10);
    expect(guard.admit("x".repeat(256))).toBe("x".repeat(256));
    expect(guard.admit("x".repeat(257))).toBe("other");
    expect(guard.admit("a\ud800")).toBe("other");
    expect(guard.admit("a\u{1f600}")).toBe("a\u{1f600}");
  });

  it("never folds a pinned value, nor counts it (S-96)", () => {
    const pinned = new Set(["rewritten"]);
    const guard = new LabelGuard(1, (value) => pinned.has(value));
    expect(["rewritten", "a", "b", "rewritten"].map((value) => guard.admit(value))).toEqual([
      "rewritten",
      "a",
      "other",
      "rewritten",
    ]);
    expect([guard.pins("rewritten"), guard.pins("a")]).toEqual([true, false]);
    pinned.clear();
    expect(guard.admit("rewritten")).toBe("other");
  });
});
