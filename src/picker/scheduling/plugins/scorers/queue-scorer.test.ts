import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, scoresOf, unscraped } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { queueScorer } from "./queue-scorer.ts";

const waiting = (...counts: number[]) =>
  columnsOf(counts.map((count, slot) => endpointOf(slot, { metrics: { waiting: count } })));

describe("queue-scorer", () => {
  it("S-34: {0, 5, 10} scores 1, 0.5, 0; all equal scores 1", () => {
    expect(scoresOf(queueScorer, waiting(0, 5, 10))).toEqual([1, 0.5, 0]);
    expect(scoresOf(queueScorer, waiting(7, 7))).toEqual([1, 1]);
    expect(scoresOf(queueScorer, waiting(3))).toEqual([1]);
  });

  it("never takes an endpoint without metrics for an idle one", () => {
    const pool = [endpointOf(0, { metrics: { waiting: 4 } }), unscraped(1), endpointOf(2, { metrics: { waiting: 9 } })];
    expect(scoresOf(queueScorer, columnsOf(pool))).toEqual([1, 0, 0]);
    expect(scoresOf(queueScorer, columnsOf([unscraped(0), unscraped(1)]))).toEqual([1, 1]);
  });
});
