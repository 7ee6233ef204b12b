import { describe, it } from "vitest";
import { liveThroughADay } from "./day.cases.ts";

const HOUR = 700;

/** All events of the long form. The heap needs more requests until it has its size: only the long form judges its growth. */
describe("a day of a gateway, an hour in 0.7 seconds", () => {
  it("loses no request that could be answered, and keeps nothing", async () => {
    await liveThroughADay(HOUR);
  });
});
