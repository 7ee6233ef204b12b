import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { retryDelay } from "./outcomes.ts";

const DRAWS = 1000;

/** Shortest and longest of 1,000 delays. */
function spread(failure: Parameters<typeof retryDelay>[0]): { least: number; most: number } {
  const random = new SeededRandom(7);
  let [least, most] = [Number.POSITIVE_INFINITY, 0];
  for (let draw = 0; draw < DRAWS; draw++) {
    const delay = retryDelay(failure, random);
    least = Math.min(least, delay);
    most = Math.max(most, delay);
  }
  return { least, most };
}

describe("A-53: the pause before a retry", () => {
  it.each([
    [0, 2, 4],
    [1, 4, 8],
    [2, 8, 16],
    [3, 16, 32],
    [4, 30, 60],
    [5, 30, 60],
    [1_000_000, 30, 60],
  ])("after %d retries: from %d to %d s, spread over all of it", (retryCount, from, to) => {
    const { least, most } = spread({ retryCount, secondsToDeadline: 86_400, retryAfter: undefined });
    expect(least).toBeGreaterThanOrEqual(from);
    expect(most).toBeLessThan(to);
    expect(least).toBeLessThan(from + (to - from) / 20);
    expect(most).toBeGreaterThan(to - (to - from) / 20);
  });

  it.each([0.01, 1, 3, 45])("%d s to the deadline: always before it", (secondsToDeadline) => {
    for (const retryCount of [0, 3, 9])
      expect(spread({ retryCount, secondsToDeadline, retryAfter: undefined }).most).toBeLessThan(secondsToDeadline);
  });

  it("Retry-After counts when it is longer, with up to a quarter on top", () => {
    const { least, most } = spread({ retryCount: 0, secondsToDeadline: 86_400, retryAfter: 120 });
    expect(least).toBeGreaterThanOrEqual(120);
    expect(most).toBeLessThan(150);
    expect(most).toBeGreaterThan(145);
  });

  it.each([60, 100, 1e9, Number.POSITIVE_INFINITY])("Retry-After %d with 100 s left: at most 62.5 s", (retryAfter) => {
    const { least, most } = spread({ retryCount: 0, secondsToDeadline: 100, retryAfter });
    expect(least).toBeGreaterThanOrEqual(50);
    expect(most).toBeLessThanOrEqual(62.5);
  });

  it.each([0, 1, 30])("Retry-After %d shortens nothing", (retryAfter) => {
    const { least, most } = spread({ retryCount: 5, secondsToDeadline: 86_400, retryAfter });
    expect(least).toBeGreaterThanOrEqual(30);
    expect(most).toBeLessThan(60);
  });
});
