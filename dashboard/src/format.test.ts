import { describe, expect, it } from "vitest";
import { absolute, bytes, count, counted, figure, percent, span } from "./format.ts";

describe("numbers on the page", () => {
  it("have a unit that fits, and a dash where nothing is known", () => {
    expect([0, 7, 999.4, 1000, 61_000, 119_999, 120_000, 3_600_000, 7_200_000, 200_000_000].map(span)).toEqual([
      ...["0 ms", "7 ms", "999 ms", "1 s", "61 s", "120 s", "2 min", "60 min", "2 h", "2 d"],
    ]);
    expect([0.5, 0.0123, 1.256, 1].map(percent)).toEqual(["50 %", "1.23 %", "126 %", "100 %"]);
    expect([0, 512, 1536, 3 << 20].map(bytes)).toEqual(["0 B", "512 B", "1.5 KiB", "3 MiB"]);
    expect([figure(12.345), figure(1234.5), count(1_234_567)]).toEqual(["12.3", "1,235", "1,234,567"]);
    for (const say of [span, percent, bytes, figure, count])
      expect([say(null), say(undefined), say(Number.NaN), say(Number.POSITIVE_INFINITY)]).toEqual(Array(4).fill("–"));
    expect([counted(1, "request"), counted(2, "request"), counted(0, "entry", "entries")]).toEqual([
      ...["1 request", "2 requests", "0 entries"],
    ]);
  });

  it("say the day, the millisecond and the zone of a moment", () => {
    expect(absolute(Date.UTC(2026, 0, 2, 3, 4, 5, 6))).toMatch(/^20\d\d-\d\d-\d\d \d\d:\d\d:05\.006 UTC[+-]\d\d:\d\d$/);
  });
});
