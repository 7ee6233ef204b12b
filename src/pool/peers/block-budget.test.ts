import { expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { BlockBudget, MOST_BLOCKS_A_SECOND } from "./block-budget.ts";

/** Messages of each of eight senders that were taken in ten seconds. @param blocks offered in a second */
function taken(blocks: number): number[] {
  const budget = new BlockBudget(new SeededRandom(1));
  const counts = Array.from({ length: 8 }, () => 0);
  for (let at = 0; at < 10_000; at += 20)
    for (let sender = 0; sender < 8; sender++) if (budget.takes(blocks / 400, at + sender)) counts[sender]!++;
  return counts;
}

it("takes everything below the bound", () => {
  expect(taken(0.9 * MOST_BLOCKS_A_SECOND)).toEqual(Array(8).fill(500));
});

it("takes an even part of what comes above the bound, of each sender", () => {
  for (const times of [1.5, 4, 10]) {
    const counts = taken(times * MOST_BLOCKS_A_SECOND);
    const all = counts.reduce((sum, count) => sum + count, 0);
    // The first second passes before the rate is known.
    expect(all / 4000).toBeGreaterThan(0.9 / times);
    expect(all / 4000).toBeLessThan(1.5 / times);
    for (const count of counts) expect(count / (all / 8)).toBeGreaterThan(0.6);
  }
});

it("takes everything again once it is less", () => {
  const budget = new BlockBudget(new SeededRandom(1));
  for (let at = 0; at < 5000; at++) budget.takes(MOST_BLOCKS_A_SECOND, at);
  const later = Array.from({ length: 50 }, (_, i) => budget.takes(100, 30_000 + i));
  expect(later).toEqual(Array(50).fill(true));
});
