import { describe, it } from "vitest";
import { survivesKills } from "./kills.cases.ts";
describe("many", () => {
  for (let n = 40; n < 60; n++) it(`kills ${n}`, () => survivesKills(n, 10_000), 7_200_000);
});
