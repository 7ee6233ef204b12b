import { describe, expect, it } from "vitest";
import { loadConfig } from "../../picker/config/load.ts";
import { PLUGIN_REGISTRY } from "../../picker/core/plugins/plugins.ts";
import { BatchingEngine } from "../simulator/batching/batching-engine.ts";
import { PRESETS } from "../simulator/batching/config.ts";
import { BURSTS } from "../simulator/workloads/bursts.ts";
import { HOT_PREFIX } from "../simulator/workloads/hot-prefix.ts";
import type { WorkloadDefinition } from "../simulator/workloads/workload.ts";
import type { SimPickers } from "./picker-flags.ts";
import { type RunOptions, simulate } from "./run.ts";

const DURATION = 8000;

function run(definition: WorkloadDefinition, rate: number, pickers: SimPickers | undefined, seed = 1) {
  const placed: number[] = [];
  const options: RunOptions = {
    workload: definition.make({ rate, durationMs: DURATION, servers: 8 }),
    ...{ durationMs: DURATION, servers: 8, seed, pickers },
    engine: (_, parts) => new BatchingEngine({ config: PRESETS[0]!.config, ...parts }),
    decides: { config: loadConfig(undefined, PLUGIN_REGISTRY) },
    placed: (server) => placed.push(server),
  };
  return { ...simulate(options), placed };
}

describe("several pickers in a simulation", () => {
  it("one alone decides as without replicas", () => {
    const sharing = { delayMs: 5, loss: 0 };
    expect(run(HOT_PREFIX, 20, { count: 1, sharing }).placed).toEqual(run(HOT_PREFIX, 20, undefined).placed);
  });

  it("that hear of each other at once find as many prefixes in the caches as one, and find less when they share nothing", () => {
    const one = run(HOT_PREFIX, 20, undefined);
    const shared = run(HOT_PREFIX, 20, { count: 4, sharing: { delayMs: 0, loss: 0 } });
    const apart = run(HOT_PREFIX, 20, { count: 4, sharing: undefined });
    expect(shared.hitRate).toBeGreaterThan(one.hitRate - 0.03);
    expect(apart.hitRate).toBeLessThan(one.hitRate - 0.03);
    expect(shared.finished).toBe(one.finished);
  });

  it("whose messages are all lost are as those that share nothing", () => {
    const lost = run(HOT_PREFIX, 20, { count: 4, sharing: { delayMs: 0, loss: 1 } });
    expect(lost.hitRate).toBeLessThan(run(HOT_PREFIX, 20, undefined).hitRate - 0.03);
  });

  it("that know all of each other at once spread the load as one does, and less evenly when they learn of it late", () => {
    const unevenness = (delayMs: number): number =>
      run(HOT_PREFIX, 40, { count: 4, sharing: { delayMs, loss: 0, exact: true } }).maxToMeanLoad;
    const one = run(HOT_PREFIX, 40, undefined).maxToMeanLoad;
    expect(Math.abs(unevenness(0) - one)).toBeLessThan(0.1);
    expect(unevenness(500)).toBeGreaterThan(one + 0.1);
  });

  it("repeat themselves with the same seed, lost messages included, and differ with another one", () => {
    const pickers = { count: 3, sharing: { delayMs: 20, loss: 0.1 } };
    const first = run(BURSTS, 60, pickers).placed;
    expect(run(BURSTS, 60, pickers).placed).toEqual(first);
    expect(run(BURSTS, 60, pickers, 2).placed).not.toEqual(first);
  });
});
