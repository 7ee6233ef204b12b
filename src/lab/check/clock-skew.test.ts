import { describe, expect, it } from "vitest";
import { clockSkew, provenSkew } from "./clock-skew.ts";

const AT = Date.parse("2027-01-01T00:00:10.400Z");
const date = (ms: number): string => new Date(ms).toUTCString();

describe("clockSkew", () => {
  it.each([0, 100, 599, 999, 3000])("proves nothing against a clock that agrees, after %i ms", (took) => {
    for (const written of [0, took / 2, took]) {
      const skew = clockSkew(date(AT + written), AT, took)!;
      expect(provenSkew(skew)).toBe(0);
    }
  });

  it.each([-3_600_000, -5000, 5000, 3_600_000])(
    "finds a clock that is %i ms off, as sure as a second can be",
    (off) => {
      const skew = clockSkew(date(AT + 20 + off), AT, 40)!;
      expect(Math.abs(skew.ms - off)).toBeLessThanOrEqual(skew.error);
      expect(Math.sign(skew.ms)).toBe(Math.sign(off));
      expect(provenSkew(skew)).toBeGreaterThan(Math.abs(off) - 1100);
    },
  );

  it("knows nothing without a date", () => {
    for (const text of [undefined, "", "noon"]) expect(clockSkew(text, AT, 1)).toBeUndefined();
  });
});
