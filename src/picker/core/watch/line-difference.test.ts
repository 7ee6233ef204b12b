import { expect, it } from "vitest";
import { lineDifference } from "./line-difference.ts";

it("shows the lines in which two texts differ", () => {
  expect(lineDifference("a\nb\nc\nd\n", "a\nB\nc\nd\ne\n")).toEqual(["- b", "+ B", "+ e"]);
  expect(lineDifference("a\nb\n", "a\nb\n")).toEqual([]);
  expect(lineDifference("", "x")).toEqual(["- ", "+ x"]);
});
