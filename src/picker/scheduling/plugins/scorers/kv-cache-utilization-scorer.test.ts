import { describe, expect, it } from "vitest";
import { columnsOf, endpointOf, scoresOf, unscraped } from "../../../../../test/support/scheduling/fakes.cases.ts";
import { kvCacheUtilizationScorer } from "./kv-cache-utilization-scorer.ts";

describe("kv-cache-utilization-scorer", () => {
  it("scores the free share; an unknown one counts as the fullest known", () => {
    const pool = [
      endpointOf(0, { metrics: { kvUsage: 0.25 } }),
      endpointOf(1, { metrics: { kvUsage: 0.9 } }),
      endpointOf(2, { metrics: { kvUsage: Number.NaN } }),
    ];
    expect(scoresOf(kvCacheUtilizationScorer, columnsOf(pool))).toEqual([0.75, 0.1, 0.1]);
    expect(scoresOf(kvCacheUtilizationScorer, columnsOf([unscraped(0), unscraped(1)]))).toEqual([1, 1]);
  });
});
