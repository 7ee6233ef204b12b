import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../picker/config/load.ts";
import { PLUGIN_REGISTRY } from "../../picker/core/plugins/plugins.ts";
import { BatchingEngine } from "../simulator/batching/batching-engine.ts";
import { type BatchingConfig, PRESETS, type StepLoad } from "../simulator/batching/config.ts";
import { poissonArrivals } from "../simulator/workloads/arrivals.ts";
import { B2B_SAAS } from "../simulator/workloads/b2b-saas.ts";
import { WORKLOADS } from "../simulator/workloads/catalogue.ts";
import { HOT_PREFIX } from "../simulator/workloads/hot-prefix.ts";
import { leadMs, type Workload } from "../simulator/workloads/workload.ts";
import { POLICIES } from "./policies.ts";
import { type Decides, type RunOptions, simulate } from "./run.ts";

const DEFAULT: Decides = { config: loadConfig(undefined, PLUGIN_REGISTRY) };
const [{ config: qwen }] = PRESETS as readonly [(typeof PRESETS)[number]];

/** A rule of the catalogue, begun anew. */
function ruleOf(policy: string): Decides {
  return { rule: POLICIES.find(({ name }) => name === policy)!.rule!() };
}

/** One prompt at a time, and 100 ms for each. */
const CLERK: BatchingConfig = {
  ...qwen,
  cost: { base: 0, prefill: 1, attention: 0, context: 0, sequence: 0 },
  tokenBudget: 100,
  maxNumSeqs: 1,
  prefixCache: false,
};

/** Prompts of 100 tokens, answered with one. */
function plain(perSecond: number, durationMs: number): Workload {
  const prompt = new Uint8Array(400);
  return {
    start: (port) => poissonArrivals(port, perSecond, durationMs, () => port.send({ prompt, outputTokens: 1 })),
  };
}

function clerks(servers: number, perSecond: number, durationMs: number, decides: Decides) {
  return simulate({
    ...{ servers, seed: 5, durationMs, decides, metrics: false, workload: plain(perSecond, durationMs) },
    engine: (_, parts) => new BatchingEngine({ config: CLERK, ...parts }),
  });
}

describe("a run against queueing theory", () => {
  it.each([0.5, 0.8])("waits as the M/D/1 queue does at a load of %d", (load) => {
    const { ttft, finished } = clerks(1, load * 10, 2_000_000, ruleOf("round-robin"));
    expect(finished).toBeGreaterThan(9000);
    // Pollaczek and Khinchine: half of what M/M/1 waits.
    const wait = (load / (2 * (1 - load))) * 100;
    expect(Math.abs((ttft.mean - 100) / wait - 1)).toBeLessThan(0.08);
  });

  it.each([
    ["round-robin", ruleOf("round-robin")],
    ["the default", DEFAULT],
  ])("keeps Little's law within 2 %% under %s", (_, decides) => {
    const seconds = 400;
    const { servers, e2e, requests } = clerks(4, 30, seconds * 1000, decides);
    const load = servers.reduce((sum, { meanLoad }) => sum + meanLoad, 0);
    expect(Math.abs(load / ((requests / seconds) * (e2e.mean / 1000)) - 1)).toBeLessThan(0.02);
  });
});

describe("the tokens of a run", () => {
  it("are all computed, each once: prompts but for what was found in a cache, answers but for their last ones", () => {
    const computed = { prompts: 0, answers: 0, steps: 0 };
    const onStep = ({ prefillTokens, decoding }: Readonly<StepLoad>): void => {
      computed.prompts += prefillTokens;
      computed.answers += decoding;
      computed.steps++;
    };
    const settings = { rate: 30, durationMs: 4000, servers: 4 };
    const result = simulate({
      ...{ ...settings, seed: 1, workload: HOT_PREFIX.make(settings), decides: DEFAULT },
      engine: (_, parts) => new BatchingEngine({ config: qwen, onStep, ...parts }),
    });
    expect([result.finished, result.preemptions]).toEqual([result.requests, 0]);
    const prompts = result.promptTokens * result.finished;
    expect(computed.prompts).toBeCloseTo(prompts * (1 - result.hitRate), 3);
    expect(computed.answers).toBeCloseTo((result.outputTokens - 1) * result.finished, 3);
    const byKind = result.kinds.reduce((sum, { outputTokens }) => sum + outputTokens, 0);
    expect(byKind).toBeCloseTo(result.outputTokens * result.finished, 3);
    expect(result.servers.reduce((sum, { requests }) => sum + requests, 0)).toBe(result.finished);
  });
});

/** The same with a look at everything that is sent, and when. */
function watched(
  workload: Workload,
  saw: (at: number, of: Parameters<Parameters<Workload["start"]>[0]["send"]>[0]) => void,
): Workload {
  return {
    start: (port) =>
      workload.start({
        ...port,
        send(request, ended) {
          saw(port.clock.now(), request);
          port.send(request, ended);
        },
      }),
  };
}

describe("the requests of a run", () => {
  // Of the workloads with metrics of different ages one will do: `b2b-saas.test.ts` says that they are alike.
  const open = WORKLOADS.filter(
    ({ name }) =>
      !["realtime-and-batch", "realtime-with-batch", "conversations", "agents"].includes(name) &&
      !/^staleness-(?!5)/.test(name),
  );

  it.each(open)("of $name are the same under every policy, to the last byte, those of the warm-up included", (one) => {
    const settings = { rate: Math.max(20, one.rates[0]!), durationMs: 1500, servers: one.servers };
    const warmUp = one.warmUp && { rate: one.warmUp.rate, durationMs: 1000, restMs: 1000 };
    const prints = [ruleOf("round-robin"), ruleOf("least-request"), DEFAULT].map((decides) => {
      const hash = createHash("sha1");
      let count = 0;
      const workload = watched(one.make({ ...settings, warmUp }), (at, { prompt, ...rest }) => {
        hash.update(`${at} ${JSON.stringify(rest)}`).update(prompt);
        count++;
      });
      simulate({
        ...{ ...settings, workload, decides, seed: 3, warmUpMs: leadMs(warmUp) },
        engine: (_, parts) => new BatchingEngine({ config: qwen, ...parts }),
      });
      return { count, print: hash.digest("hex") };
    });
    expect(prints[0]!.count).toBeGreaterThan(15);
    expect(prints.slice(1)).toEqual([prints[0], prints[0]]);
  });

  it("of b2b-saas that are measured meet idle servers under every policy: the warm-up is over by then", () => {
    for (const decides of [ruleOf("round-robin"), DEFAULT]) {
      const { warmUp, servers } = B2B_SAAS;
      const settings = { rate: 10, durationMs: 1000, servers };
      const engines: BatchingEngine[] = [];
      let met: number | undefined;
      const workload = watched(B2B_SAAS.make({ ...settings, warmUp }), (at) => {
        if (at < leadMs(warmUp)) return;
        met ??= engines.reduce((sum, { running, waiting }) => sum + running + waiting, 0);
      });
      const engine: RunOptions["engine"] = (_, parts) => {
        engines.push(new BatchingEngine({ config: qwen, ...parts }));
        return engines.at(-1)!;
      };
      const result = simulate({ ...settings, workload, engine, decides, seed: 2, warmUpMs: leadMs(warmUp) });
      expect(met).toBe(0);
      expect(result.servers.reduce((sum, { requests }) => sum + requests, 0)).toBe(result.finished);
      expect(result.requests).toBeLessThan(30);
    }
  });
});
