import { describe, it } from "vitest";
import { liveThroughADay } from "./day.cases.ts";

const HOUR = 25_000;

describe("a day of a gateway, an hour in 25 seconds", () => {
  it("loses no request that could be answered, and keeps nothing", () => liveThroughADay(HOUR), HOUR * 240);
});
