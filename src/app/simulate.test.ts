import { describe, expect, it } from "vitest";
import { STICKY_CONFIG } from "../config/defaults.ts";
import { quantile } from "./demo/half.ts";
import { MODEL_SERVER } from "./demo/model-server.ts";
import { ROUND_ROBIN } from "./demo/round-robin.ts";
import { demoWorkload, makeWorkload } from "./demo/workload.ts";
import { type Simulation, type SimulationResult, simulate } from "./simulate.ts";

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

describe("one prefix in nearly all requests", () => {
  // 40 requests per second, of about a second each, on servers of 16 slots: too many for one, no trouble for four.
  const hot = makeWorkload({ seed: 1, durationMs: 10_000, ratePerSecond: 40 }).map((request, _, [first]) =>
    request.number % 10 === 0 ? request : { ...request, prefix: first!.prefix, system: first!.system },
  );
  const engine = { ...MODEL_SERVER, kvCacheSize: 4096, latency: { ...MODEL_SERVER.latency, timeFactorUnderLoad: 2 } };
  const mean = ({ ttfts }: SimulationResult): number => ttfts.reduce((sum, ttft) => sum + ttft, 0) / ttfts.length;
  const run = (more: Partial<Simulation> = {}) => simulate({ servers: 4, engine, workload: hot, seed: 1, ...more });

  it("is let go by the built-in profiles when its endpoint is saturated", () => {
    for (const more of [{}, { configText: STICKY_CONFIG }]) {
      const result = run(more);
      expect(result.ttfts.length).toBe(hot.length);
      expect(mean(result)).toBeLessThan(200);
      expect(result.maxToMeanLoad).toBeLessThan(1.6);
    }
  });

  it("stays on one endpoint where that cannot tell that it is saturated", () => {
    const blind = run({ configText: STICKY_CONFIG, metrics: false });
    expect(mean(blind)).toBeGreaterThan(2000);
    expect(blind.maxToMeanLoad).toBeGreaterThan(3);
  });
});

describe("servers of different speed", () => {
  it("get their share of the load, not of the requests", () => {
    const slow = { ...MODEL_SERVER, latency: { ...MODEL_SERVER.latency, timeScale: 3 } };
    const engine = (server: number) => (server === 0 ? slow : MODEL_SERVER);
    const workload = makeWorkload({ seed: 2, durationMs: 10_000, ratePerSecond: 24 });
    const run = (configText: string) => simulate({ servers: 3, engine, workload, configText, seed: 1 });
    expect(run(ROUND_ROBIN).maxToMeanLoad).toBeGreaterThan(1.7);
    expect(run(STICKY_CONFIG).maxToMeanLoad).toBeLessThan(1.7);
  });
});
