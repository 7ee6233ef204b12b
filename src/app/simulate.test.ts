import { describe, expect, it } from "vitest";
import { quantile } from "./demo/half.ts";
import { MODEL_SERVER } from "./demo/model-server.ts";
import { ROUND_ROBIN } from "./demo/round-robin.ts";
import { demoWorkload } from "./demo/workload.ts";
import { simulate } from "./simulate.ts";

describe("the demo's workload in virtual time", () => {
  // Word for word what `sluice demo --duration 20s` sends in each half.
  const workload = demoWorkload(1, 10_000, 3);
  const run = (configText?: string) =>
    simulate({
      servers: 3,
      engine: MODEL_SERVER,
      workload,
      seed: 1,
      ...(configText === undefined ? {} : { configText }),
    });

  it("has a p90 of the time to first token at least 3x better than round robin, and more cache hits", () => {
    const roundRobin = run(ROUND_ROBIN);
    const sluice = run();
    expect([roundRobin.rejected, sluice.rejected]).toEqual([0, 0]);
    expect([roundRobin.ttfts.length, sluice.ttfts.length]).toEqual([workload.length, workload.length]);
    const p90 = (ttfts: readonly number[]): number =>
      quantile(
        [...ttfts].sort((a, b) => a - b),
        0.9,
      );
    expect(p90(roundRobin.ttfts) / p90(sluice.ttfts)).toBeGreaterThanOrEqual(3);
    expect(sluice.cacheHitRate).toBeGreaterThan(roundRobin.cacheHitRate);
  });

  it("gives the same result for the same seed", () => {
    expect(run()).toEqual(run());
  });
});
