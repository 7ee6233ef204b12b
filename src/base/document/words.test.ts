import { expect, it } from "vitest";
import { counted, grouped, listed, sentence } from "./words.ts";

it("groups digits by thousands, before the point alone", () => {
  expect([0, 999, 1000, 1_234_567].map((value) => grouped(value))).toEqual(["0", "999", "1,000", "1,234,567"]);
  expect(grouped(-1234.5678, 4)).toBe("-1,234.5678");
});

it("counts in the singular and the plural", () => {
  expect([counted(1, "run"), counted(0, "run"), counted(1200, "run")]).toEqual(["1 run", "0 runs", "1,200 runs"]);
  expect([counted(1, "entry", "entries"), counted(2, "entry", "entries")]).toEqual(["1 entry", "2 entries"]);
});

it("lists names with `and` before the last one", () => {
  expect([[], ["a"], ["a", "b"], ["a", "b", "c"]].map(listed)).toEqual(["", "a", "a and b", "a, b and c"]);
});

it("makes a sentence of a phrase", () => {
  expect(sentence("a file of `--keys`; optional")).toBe("A file of `--keys`; optional.");
});
