import { describe, expect, it } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import { defineScorer } from "../../base/plugin/define.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import { STICKY_CONFIG } from "../../picker/config/defaults.ts";
import { loadConfig } from "../../picker/config/load.ts";
import { PLUGIN_REGISTRY, PLUGINS } from "../../picker/core/plugins/plugins.ts";
import { MODEL_SERVER } from "../demo/cluster.ts";
import { ROUND_ROBIN } from "../demo/run.ts";
import { type DemoRequest, demoWorkload, makeWorkload } from "../demo/traffic.ts";
import { BatchingEngine } from "../simulator/batching/batching-engine.ts";
import { PRESETS } from "../simulator/batching/config.ts";
import { type EngineConfig, SimEngine } from "../simulator/engine.ts";
import { type RunOptions, simulate } from "./run.ts";

/** The demo's list as a workload: its prompts are of words of three letters, too. */
function run(
  list: readonly DemoRequest[],
  servers: number,
  configText?: string,
  more: Partial<RunOptions> & { config?: (server: number) => Partial<EngineConfig> } = {},
) {
  const { config = () => MODEL_SERVER, ...rest } = more;
  const document = configText === undefined ? undefined : parseDocument(configText, { file: "test" });
  return simulate({
    ...{ servers, seed: 1, durationMs: list.at(-1)!.at + 1 },
    workload: {
      start(port) {
        for (const { at, system, question, maxTokens } of list) {
          const prompt = new TextEncoder().encode(`${system} ${question} `);
          port.clock.after(at, () => port.send({ prompt, outputTokens: maxTokens }));
        }
      },
    },
    engine: (server, parts) => new SimEngine({ config: config(server), ...parts }),
    decides: { config: loadConfig(document, PLUGIN_REGISTRY) },
    ...rest,
  });
}

describe("the demo's workload in virtual time", () => {
  // Word for word what `sluice demo --duration 20s` sends in each half.
  const workload = demoWorkload(1, 10_000, 3);

  it("has a p90 of the time to first token at least 3x better than round robin, and more cache hits", () => {
    const roundRobin = run(workload, 3, ROUND_ROBIN);
    const sluice = run(workload, 3);
    expect([roundRobin.rejected, sluice.rejected]).toEqual([0, 0]);
    expect([roundRobin.finished, sluice.finished]).toEqual([workload.length, workload.length]);
    expect(roundRobin.ttft.p90 / sluice.ttft.p90).toBeGreaterThanOrEqual(3);
    expect(sluice.hitRate).toBeGreaterThan(roundRobin.hitRate);
  });

  it("gives the same result for the same seed", () => {
    expect(run(workload, 3)).toEqual(run(workload, 3));
  });

  it("adds up: what was sent has ended, and each server's share is known", () => {
    const result = run(workload, 3);
    expect(result.requests).toBe(workload.length);
    expect(result.servers.reduce((sum, { requests }) => sum + requests, 0)).toBe(workload.length);
    const tokens = workload.reduce((sum, { maxTokens }) => sum + maxTokens, 0);
    expect(result.outputTokens * result.finished).toBeCloseTo(tokens, 6);
    expect(result.outputTokensPerSecond * result.makespan).toBeCloseTo(tokens, 6);
  });
});

describe("one prefix in nearly all requests", () => {
  // 40 requests per second, of about a second each, on servers of 16 slots: too many for one, no trouble for four.
  const hot = makeWorkload({ seed: 1, durationMs: 10_000, ratePerSecond: 40 }).map((request, _, [first]) =>
    request.number % 10 === 0 ? request : { ...request, prefix: first!.prefix, system: first!.system },
  );
  const engine = { ...MODEL_SERVER, kvCacheSize: 4096, latency: { ...MODEL_SERVER.latency, timeFactorUnderLoad: 2 } };

  it("is let go by the built-in profiles when its endpoint is saturated", () => {
    for (const text of [undefined, STICKY_CONFIG]) {
      const result = run(hot, 4, text, { config: () => engine });
      expect(result.finished).toBe(hot.length);
      expect(result.ttft.mean).toBeLessThan(200);
      expect(result.maxToMeanLoad).toBeLessThan(1.6);
    }
  });

  it("is let go without metrics, too", () => {
    for (const text of [undefined, STICKY_CONFIG]) {
      const blind = run(hot, 4, text, { config: () => engine, metrics: false });
      expect(blind.finished).toBe(hot.length);
      expect(blind.ttft.mean).toBeLessThan(200);
      expect(blind.maxToMeanLoad).toBeLessThan(1.6);
    }
  });
});

describe("servers of different speed", () => {
  it("get their share of the load, not of the requests", () => {
    const slow = { ...MODEL_SERVER, latency: { ...MODEL_SERVER.latency, timeScale: 3 } };
    const config = (server: number) => (server === 0 ? slow : MODEL_SERVER);
    const workload = makeWorkload({ seed: 2, durationMs: 10_000, ratePerSecond: 24 });
    expect(run(workload, 3, ROUND_ROBIN, { config }).maxToMeanLoad).toBeGreaterThan(1.7);
    expect(run(workload, 3, STICKY_CONFIG, { config }).maxToMeanLoad).toBeLessThan(1.7);
  });
});

describe("what a run counts", () => {
  const workload = makeWorkload({ seed: 3, durationMs: 3000, ratePerSecond: 60 });

  it("counts requests that a rule refused apart from finished ones", () => {
    const config = () => ({ ...MODEL_SERVER, maxNumSeqs: 1, maxWaitingQueueLength: 2 });
    const rule = () => 0;
    const result = run(workload, 3, undefined, { config, decides: { rule } });
    expect(result.rejected).toBeGreaterThan(0);
    expect(result.finished + result.rejected).toBe(workload.length);
    expect(result.servers.map(({ requests }) => requests)).toEqual([result.finished, 0, 0]);
    expect(result.maxToMeanLoad).toBeCloseTo(3, 6);
  });

  it("keeps one sample of the loads per second if the options ask for it", () => {
    const { samples } = run(workload, 3, undefined, { samples: true });
    expect(samples.length).toBeGreaterThanOrEqual(3);
    expect(samples.map(({ at }) => Math.floor(at))).toEqual(samples.map((_, i) => i));
    expect(run(workload, 3).samples).toEqual([]);
  });

  it("shows figures later where they are to lag, and decides otherwise for it", () => {
    const sharp = run(workload, 3);
    const dull = run(workload, 3, undefined, { metricsLagMs: 5000, scrapeIntervalMs: 1000 });
    expect(dull.ttft).not.toEqual(sharp.ttft);
    expect(dull.finished).toBe(workload.length);
  });
});

describe("what plugins see of a run", () => {
  /** A run of the default picker with one scorer, which is told of. */
  function runWith(scorer: Parameters<typeof defineScorer>[0]) {
    const registry = new PluginRegistry([...PLUGINS, defineScorer(scorer)]);
    const text = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: ${scorer.type}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: ${scorer.type}}
`;
    const config = loadConfig(parseDocument(text, { file: "test" }), registry);
    return run(makeWorkload({ seed: 3, durationMs: 1000, ratePerSecond: 20 }), 2, undefined, { decides: { config } });
  }

  it("ignores the length of the answer, which no router knows beforehand", () => {
    const seen = new Set<number>();
    const describe = "Looks at the limits of requests.";
    const result = runWith({
      ...{ type: "limit-watcher", describe },
      create: () => ({ score: ({ request }) => void seen.add(request.maxTokens) }),
    });
    expect(result.finished).toBeGreaterThan(10);
    expect([...seen]).toEqual([Number.NaN]);
  });

  it("is an end, though they keep timers of its clock armed, and they are closed then", () => {
    let closed = 0;
    const result = runWith({
      ...{ type: "busybody", describe: "Does something every second." },
      create(_, { clock }) {
        const again = (): void => void clock.after(1000, again);
        again();
        return { score() {}, close: () => closed++ };
      },
    });
    expect([result.finished, closed]).toEqual([result.requests, 1]);
  });

  it("is a run in which one that throws is left out of the decision", () => {
    const result = runWith({
      ...{ type: "thrower", describe: "Fails." },
      create: () => ({
        score() {
          throw new Error("no");
        },
      }),
    });
    expect(result.finished).toBe(result.requests);
  });
});

describe("the very first moment of a run", () => {
  const [{ config }] = PRESETS as readonly [(typeof PRESETS)[number]];
  const prompt = new Uint8Array(4 * 64);

  it("counts where there is no warm-up, and not where there is one", () => {
    const first = (warmUpMs: number) =>
      simulate({
        ...{ servers: 1, seed: 1, durationMs: 1000, warmUpMs, decides: { rule: () => 0 } },
        workload: { start: (port) => port.send({ prompt, outputTokens: 2, adapter: "a" }) },
        engine: (_, parts) => new BatchingEngine({ config, ...parts }),
      });
    expect(first(0)).toMatchObject({ requests: 1, adapterLoads: 1, hitRate: 0 });
    expect(first(500)).toMatchObject({ requests: 0, adapterLoads: 0, hitRate: Number.NaN });
  });
});
