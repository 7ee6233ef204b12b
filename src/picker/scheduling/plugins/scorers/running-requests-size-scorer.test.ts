import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, scoresOf } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { runningRequestsSizeScorer } from "./running-requests-size-scorer.ts";

describe("running-requests-size-scorer", () => {
  it("scores by running requests, whatever waits", () => {
    const pool = [8, 0, 2].map((running, slot) => endpointOf(slot, { metrics: { running, waiting: slot * 10 } }));
    expect(scoresOf(runningRequestsSizeScorer, columnsOf(pool))).toEqual([0, 1, 0.75]);
  });
});
