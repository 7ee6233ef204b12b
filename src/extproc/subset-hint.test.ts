import { describe, expect, it } from "vitest";
import { parseSubsetHint } from "./subset-hint.ts";

const at = (address: string, port?: number) => ({ address, port });

describe("parseSubsetHint", () => {
  it.each([
    ["a list (P1.0)", ["10.0.0.1:8000", "10.0.0.2:8000"], [at("10.0.0.1", 8000), at("10.0.0.2", 8000)]],
    ["one string (E-53)", "10.0.0.1:8000, 10.0.0.2:8000", [at("10.0.0.1", 8000), at("10.0.0.2", 8000)]],
    ["a member with commas (E-53)", ["10.0.0.1:1,10.0.0.2"], [at("10.0.0.1", 1), at("10.0.0.2")]],
    ["IPv6 (E-56)", ["[fd00::1]:8000", "fd00::2", "[fd00::3]"], [at("fd00::1", 8000), at("fd00::2"), at("fd00::3")]],
    ["repeated members once", ["10.0.0.1:1", " 10.0.0.1:1 "], [at("10.0.0.1", 1)]],
    ["an empty list (E-12)", [], []],
    ["members that are no strings (E-55)", [1, null, { a: 1 }, "10.0.0.1"], [at("10.0.0.1")]],
    ["another kind", 7, []],
    ["null", null, []],
    ["bad ports", ["10.0.0.1:0", "10.0.0.1:x", "10.0.0.1:70000"], []],
  ])("reads %s", (_, value, expected) => {
    expect(parseSubsetHint(value)).toEqual(expected);
  });

  it("reads at most 8,192 members", () => {
    const many = Array.from({ length: 20_000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
    expect(parseSubsetHint(many)).toHaveLength(8192);
  });

  it("reads over ports where the pool is matched by address alone (E-54, D4)", () => {
    expect(parseSubsetHint(["10.0.0.1:8000", "[fd00::1]:1", "10.0.0.2", "10.0.0.3:x"], true)).toEqual([
      at("10.0.0.1"),
      at("fd00::1"),
      at("10.0.0.2"),
    ]);
  });
});
