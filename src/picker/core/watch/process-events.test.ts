import { expect, it } from "vitest";
import { lineDifference, ReloadLog } from "./process-events.ts";

it("shows the lines in which two texts differ", () => {
  expect(lineDifference("a\nb\nc\nd\n", "a\nB\nc\nd\ne\n")).toEqual(["- b", "+ B", "+ e"]);
  expect(lineDifference("a\nb\n", "a\nb\n")).toEqual([]);
  expect(lineDifference("", "x")).toEqual(["- ", "+ x"]);
});

it("keeps the last eight reloads, the newest first, with bounded texts", () => {
  const log = new ReloadLog();
  for (let at = 1; at <= 10; at++)
    log.add({ at, what: "f", result: "refused", problems: "p".repeat(10_000), difference: Array(300).fill("+ x") });
  const list = log.list();
  expect(list.map(({ at }) => at)).toEqual([10, 9, 8, 7, 6, 5, 4, 3]);
  expect([list[0]!.problems.length, list[0]!.difference.length]).toEqual([8192, 200]);
});
