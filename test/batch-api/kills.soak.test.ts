import { describe, it } from "vitest";
import { fixedLimit } from "../support/slowness.ts";
import { survivesKills } from "./kills.cases.ts";

describe("many SIGKILLs of a batch server that works", () => {
  it("cost no line its answer, and give none a second one", () => survivesKills(1000, 10_000), fixedLimit(7_200_000));
});
