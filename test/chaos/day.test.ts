import { describe, it } from "vitest";
import { liveThroughADay } from "./day.cases.ts";

describe("a day of a gateway, the short form of day.soak.test.ts", () => {
  it("loses no request that could be answered, and keeps nothing", () => liveThroughADay(700));
});
