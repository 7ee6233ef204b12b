import { describe, expect, it } from "vitest";
import { fixedLimit } from "../support/slowness.ts";
import { liveThroughADay } from "./day.cases.ts";

const HOUR = 25_000;

describe("a day of a gateway, an hour in 25 seconds", () => {
  it(
    "loses no request that could be answered, keeps nothing, and its heap stays flat",
    async () => expect(await liveThroughADay(HOUR)).toBe(true),
    fixedLimit(HOUR * 48),
  );
});
