import { expect, it } from "vitest";
import { ReloadLog } from "./reload-log.ts";

it("keeps the last eight reloads, the newest first, with bounded texts", () => {
  const log = new ReloadLog();
  for (let at = 1; at <= 10; at++)
    log.add({ at, what: "f", result: "refused", problems: "p".repeat(10_000), difference: Array(300).fill("+ x") });
  const list = log.list();
  expect(list.map(({ at }) => at)).toEqual([10, 9, 8, 7, 6, 5, 4, 3]);
  expect([list[0]!.problems.length, list[0]!.difference.length]).toEqual([8192, 200]);
});
