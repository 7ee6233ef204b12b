import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseQuantity } from "./quantity.ts";

describe("parseQuantity", () => {
  it.each([
    ["0", 0],
    ["1000", 1000],
    ["10Gi", 10 * 2 ** 30],
    ["1G", 1e9],
    ["1.5Ki", 1536],
    ["500k", 500_000],
    ["100m", 0.1],
    ["250u", 0.00025],
    ["-5", -5],
    ["+.5M", 500_000],
    ["1.", 1],
    ["1e3", 1000],
    ["12E-2", 0.12],
    ["1E", 1e18],
    ["1Ei", 2 ** 60],
  ])("reads %j as Kubernetes does", (text, amount) => {
    expect(parseQuantity(text)).toBe(amount);
  });

  it.each(["", ".", "Ki", "1 Ki", "1KB", "1K", "1kI", "10GB", "1e", "0x10", "1_000", "--1", "1e999", "1".repeat(31)])(
    "refuses %j with an example",
    (text) => {
      expect(() => parseQuantity(text)).toThrow(/expected a quantity such as 1000, "10Gi", "1G" or "500k", got "/);
    },
  );

  it("scales whole numbers exactly, and keeps their sign", () => {
    const suffix = fc.constantFrom(
      ["", 1],
      ["k", 1e3],
      ["M", 1e6],
      ["G", 1e9],
      ["Ki", 1024],
      ["Mi", 2 ** 20],
      ["Gi", 2 ** 30],
    );
    fc.assert(
      fc.property(fc.integer({ min: -8_000_000, max: 8_000_000 }), suffix, (amount, [text, factor]) => {
        expect(parseQuantity(`${amount}${text}`) + 0).toBe(amount * (factor as number) + 0);
      }),
    );
  });

  it("answers any text with a finite number or its own error", () => {
    const text = fc.string({ unit: fc.constantFrom(..."0159.+-KMGikmnueE "), maxLength: 10 });
    fc.assert(
      fc.property(text, (input) => {
        try {
          expect(Number.isFinite(parseQuantity(input))).toBe(true);
        } catch (error) {
          expect(error).toMatchObject({ code: "QUANTITY_SYNTAX" });
        }
      }),
    );
  });
});
