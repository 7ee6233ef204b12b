import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { finishReason, outputLength, rangeEnd } from "./lengths.ts";

const DRAWS = 20_000;

function lengths(maxTokens: number | undefined, room: number): number[] {
  const random = new SeededRandom(7);
  return Array.from({ length: DRAWS }, () => outputLength(random, maxTokens, room, false));
}

describe("D-62: number of tokens", () => {
  it.each([1, 2, 5, 6, 7, 60, 119, 120, 121, 500, 4096])("stays within 1..%i and reaches both ends", (max) => {
    const drawn = lengths(max, 100_000);
    expect(Math.min(...drawn)).toBeGreaterThanOrEqual(1);
    expect(Math.max(...drawn)).toBe(max);
  });

  it("six ranges: equal up to 120 tokens, beyond that 20 wide but for the fourth", () => {
    expect([0, 1, 2, 3, 4, 5].map((index) => rangeEnd(60, index))).toEqual([10, 20, 30, 40, 50, 60]);
    expect([0, 1, 2, 3, 4, 5].map((index) => rangeEnd(500, index))).toEqual([20, 40, 60, 460, 480, 500]);
  });

  it.each([60, 500])("probabilities 20/30/20/5/10/15 %% under a maximum of %i", (max) => {
    const drawn = lengths(max, 100_000);
    const shares = [0, 1, 2, 3, 4, 5].map(
      (index) =>
        drawn.filter((n) => n > rangeEnd(max, index - 1) * (index > 0 ? 1 : 0) && n <= rangeEnd(max, index)).length /
        DRAWS,
    );
    for (const [index, share] of [0.2, 0.3, 0.2, 0.05, 0.1, 0.15].entries()) {
      expect(Math.abs(shares[index]! - share)).toBeLessThan(0.01);
    }
  });

  it("without a maximum: normal with mean 40 and deviation 20, within the context", () => {
    const drawn = lengths(undefined, 100_000);
    expect(Math.abs(drawn.reduce((a, b) => a + b) / DRAWS - 40)).toBeLessThan(1);
    expect(Math.min(...drawn)).toBe(1);
    expect(Math.max(...lengths(undefined, 25))).toBe(25);
  });

  it("ignore_eos is exact, within the context", () => {
    const random = new SeededRandom(1);
    expect(outputLength(random, 77, 1000, true)).toBe(77);
    expect(outputLength(random, 77, 50, true)).toBe(50);
  });

  it("ends with length at the cap, else with stop", () => {
    expect([finishReason(9, 10, 100), finishReason(10, 10, 100), finishReason(5, undefined, 5)]).toEqual([
      "stop",
      "length",
      "length",
    ]);
  });
});
