import { describe, expect, it } from "vitest";
import { loadConfig } from "../../picker/config/load.ts";
import { PLUGIN_REGISTRY } from "../../picker/core/plugins/plugins.ts";
import { CATALOGUE } from "./catalogue.ts";
import { play, Run, type RunOptions } from "./run.ts";
import { simulateSettings } from "./simulate-settings.ts";
import { bareTwin, speedOf } from "./speed.ts";
import { runOptions } from "./study.ts";

const config = loadConfig(undefined, PLUGIN_REGISTRY);

function optionsOf(workload: string, rate: number, more: Partial<RunOptions> = {}) {
  const { workloads } = simulateSettings([workload], { duration: "3s", servers: "2", cold: true }, CATALOGUE);
  return { ...runOptions(workloads[0]!, rate, 1), ...more };
}

describe("how fast it is simulated", () => {
  it.each([
    ["hot-prefix", 12],
    ["lora-tiers", 20],
    ["conversations", 5],
  ])("is compared with a run of %s that gives the same figures without a scheduler", async (workload, rate) => {
    const placements: number[] = [];
    const run = new Run({ ...optionsOf(workload, rate), decides: { config }, placed: (at) => placements.push(at) });
    await play(run);
    expect(placements.length).toBe(run.requests);
    const twin = bareTwin(optionsOf(workload, rate), placements);
    await play(twin);
    const { events: _, ...figures } = run.figures();
    expect(figures.finished).toBeGreaterThan(10);
    expect(twin.figures()).toMatchObject(figures);
  });

  it("says how many requests and events that were", async () => {
    const { requests, events, ...rates } = (await speedOf(() => optionsOf("hot-prefix", 12), config))!;
    expect(requests).toBeGreaterThan(10);
    expect(events).toBeGreaterThan(requests);
    for (const rate of Object.values(rates)) expect(rate).toBeGreaterThan(0);
  });

  it("is not said where requests are refused, where there are none, and when it is cut short", async () => {
    const refusing = () => {
      const { workload, ...rest } = optionsOf("hot-prefix", 12);
      const start: typeof workload.start = (port) =>
        workload.start({ ...port, send: (request, ended) => port.send({ ...request, priority: -1 }, ended) });
      return { ...rest, metrics: false, workload: { start } };
    };
    expect(await speedOf(refusing, config)).toBeUndefined();
    expect(await speedOf(() => optionsOf("hot-prefix", 0.0001), config)).toBeUndefined();
    const signal = AbortSignal.abort();
    // A clock that stands still is an endlessly fast machine: the whole run fits into one turn.
    const standing = { now: () => 0 };
    const placed = new Run({ ...optionsOf("hot-prefix", 12), decides: { config } });
    expect(await play(placed, { signal, clock: standing })).toBeUndefined();
    expect(await speedOf(() => optionsOf("low-prefix-share", 500), config, signal)).toBeUndefined();
  });
});
