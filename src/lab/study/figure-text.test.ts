import { describe, expect, it } from "vitest";
import { grouped } from "../../base/document/words.ts";
import { type FigureKind, figureText, spreadText } from "./figure-text.ts";
import { spread } from "./result.ts";

const cell = (figure: FigureKind, ...values: number[]): string => {
  const { median, range } = spreadText(spread(values), figure);
  return `${median}|${range}`;
};

describe("spreadText", () => {
  it("writes times in the unit of their median: both lines of a cell have the same unit", () => {
    expect(cell("time", 133.4, 98.2, 12_300)).toBe("133 ms|98-12,300");
    expect(cell("time", 999.4)).toBe("999 ms|");
    expect(cell("time", 999.5)).toBe("1.00 s|");
    expect(cell("time", 9994, 500)).toBe("5.25 s|0.50-9.99");
    expect(cell("time", 41_230, 39_870, 43_000)).toBe("41.2 s|39.9-43.0");
    expect(cell("time", 1_234_000, 99_950)).toBe("667 s|100-1,234");
  });

  it("writes counts, shares, loads and ratios as precisely as they are of use", () => {
    expect(cell("count", 2310.4, 12_345.6)).toBe("7,328|2,310-12,346");
    expect(cell("share", 0.176, 0.19)).toBe("18 %|18-19");
    expect(cell("load", 1.044, 1.2)).toBe("1.12|1.04-1.20");
    expect(cell("ratio", 310.4, 290, 350)).toBe("310x|290-350");
    expect(cell("ratio", 2.14, 2.06, 2.2)).toBe("2.1x|2.1-2.2");
    expect(cell("ratio", 0.5, 0.52, 0.61)).toBe("0.52x|0.50-0.61");
    expect(cell("ratio", 0.05)).toBe("0.050x|");
  });

  it("leaves a range away that would say nothing", () => {
    expect(cell("count", 0, 0, 0)).toBe("0|");
    expect(cell("load", 1.041, 1.042)).toBe("1.04|");
  });

  it("prints - for a missing figure, and ? for the unknown end of a range", () => {
    expect(cell("time", Number.NaN, Number.NaN)).toBe("-|");
    expect(cell("time", 100, 200, Number.NaN)).toBe("200 ms|100-?");
    expect(cell("time", 100, Number.NaN, Number.NaN)).toBe("-|100-?");
    expect(figureText(Number.POSITIVE_INFINITY, "ratio")).toBe("-");
  });
});

it("groups digits by threes before the point alone", () => {
  expect([0, 999, 1000, 1_234_567].map((value) => grouped(value))).toEqual(["0", "999", "1,000", "1,234,567"]);
  expect(grouped(-1234.5678, 4)).toBe("-1,234.5678");
});
