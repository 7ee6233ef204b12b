import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { generalNumber, plainNumber } from "./number-text.ts";

describe("numbers as Go writes them", () => {
  it.each([
    [100, "100", "100"],
    [0.5, "0.5", "0.5"],
    [0, "0", "0"],
    [1e6, "1000000", "1e+06"],
    [123456, "123456", "123456"],
    [1234567, "1234567", "1.234567e+06"],
    [1e21, "1000000000000000000000", "1e+21"],
    [1.5e300, `15${"0".repeat(299)}`, "1.5e+300"],
    [0.0001, "0.0001", "0.0001"],
    [1e-7, "0.0000001", "1e-07"],
    [-12.5, "-12.5", "-12.5"],
    [0.1 + 0.2, "0.30000000000000004", "0.30000000000000004"],
  ])("%d is %s in full and %s in short (A-15)", (value, plain, general) => {
    expect(plainNumber(value)).toBe(plain);
    expect(generalNumber(value)).toBe(general);
  });

  it("loses nothing", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(Number(plainNumber(value))).toBe(value + 0 === 0 ? 0 : value);
        expect(Number(generalNumber(value))).toBe(value + 0 === 0 ? 0 : value);
        expect(plainNumber(value)).not.toContain("e");
      }),
    );
  });
});
