import { describe, expect, it } from "vitest";
import { behindText, keepsUp } from "./result.ts";

describe("keepsUp", () => {
  it.each([
    [4500, 45_000, true],
    [4501, 45_000, false],
    // A short run of the same waits is no queue that has grown.
    [1000, 2000, true],
    [1001, 2000, false],
    [Number.NaN, 45_000, true],
  ])("of a p90 of %d ms while requests arrive for %d ms: %s", (p90, durationMs, expected) => {
    expect(keepsUp(p90, durationMs)).toBe(expected);
  });
});

describe("behindText", () => {
  it("names who does not keep up, and says nothing where all do", () => {
    expect(behindText([], "60 requests/s", true)).toBeUndefined();
    expect(behindText(["a"], "60 requests/s", false)).toBe(
      "At 60 requests/s a does not keep up: its queues and TTFT grow as long as requests arrive. " +
        "At this rate, `faster` says little.",
    );
    expect(behindText(["a", "b", "c"], "60 requests/s", true)).toBe(
      "At 60 requests/s a, b and c do not keep up: their queues and TTFT grow as long as requests arrive. " +
        "At this rate, `faster` says little; compare the lower rates.",
    );
  });
});
