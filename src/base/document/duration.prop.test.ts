import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseDuration } from "./duration.ts";

describe("parseDuration", () => {
  it.each([
    ["0", 0],
    ["-0", 0],
    ["+0", 0],
    ["50ms", 50],
    ["1m30s", 90_000],
    ["1.5h", 5_400_000],
    ["-2s", -2000],
    ["+2s", 2000],
    [".5s", 500],
    ["1.s", 1000],
    ["100us", 0.1],
    ["100\u00b5s", 0.1],
    ["100\u03bcs", 0.1],
    ["1h0m0.001s", 3_600_001],
  ])("reads %j as Go does", (text, ms) => {
    expect(parseDuration(text)).toBeCloseTo(ms, 9);
  });

  it.each([
    "",
    "5",
    "s",
    "-",
    "+",
    ".s",
    "1 s",
    " 1s",
    "1s ",
    "1d",
    "1S",
    "1e3s",
    "--1s",
    "1s-1s",
    "0x1s",
    "1,5s",
    "9999999h",
    `${"1s".repeat(40)}`,
  ])("refuses %j with an example", (text) => {
    expect(() => parseDuration(text)).toThrow(/expected a duration with a unit such as "50ms", "5s" or "1m30s", got "/);
  });

  const UNITS = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, us: 1e-3, ns: 1e-6 };
  const parts = fc.array(fc.tuple(fc.nat(999), fc.constantFrom(...(Object.keys(UNITS) as (keyof typeof UNITS)[]))), {
    minLength: 1,
    maxLength: 6,
  });

  it("adds up its parts, in any order and with any sign", () => {
    fc.assert(
      fc.property(parts, fc.constantFrom("", "+", "-"), (list, sign) => {
        const text = sign + list.map(([amount, unit]) => `${amount}${unit}`).join("");
        const total = list.reduce((sum, [amount, unit]) => sum + amount * UNITS[unit], 0);
        expect(parseDuration(text)).toBeCloseTo(sign === "-" ? -total : total, 6);
      }),
    );
  });

  it("answers any text with a finite number or its own error", () => {
    const text = fc.string({ unit: fc.constantFrom(..."0159.+-hmsnu\u00b5 x"), maxLength: 12 });
    fc.assert(
      fc.property(text, (input) => {
        try {
          expect(Number.isFinite(parseDuration(input))).toBe(true);
        } catch (error) {
          expect(error).toMatchObject({ code: "DURATION_SYNTAX" });
        }
      }),
    );
  });
});
