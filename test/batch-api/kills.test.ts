import { describe, it } from "vitest";
import { endsAtDeadline, survivesKills } from "./kills.cases.ts";

describe("SIGKILLs of a batch server that works", () => {
  it("cost no line its answer, and give none a second one", () => survivesKills(3, 500));
});

describe("the deadline of a batch", () => {
  it("ends it, also while requests run", () => endsAtDeadline(60));
});
