import { describe, expect, it } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import { DEFAULT_CONFIG, STICKY_CONFIG } from "../../picker/config/defaults.ts";
import type { EffectiveConfig } from "../../picker/config/effective.ts";
import { loadConfig } from "../../picker/config/load.ts";
import { PLUGIN_REGISTRY } from "../../picker/core/plugins/plugins.ts";
import { expectPick } from "../../picker/testing/index.ts";
import { BatchingEngine } from "../simulator/batching/batching-engine.ts";
import { presetNamed } from "../simulator/batching/config.ts";
import { LONG_DOCUMENTS } from "../simulator/workloads/long-documents.ts";
import { spread } from "./result.ts";
import { simulate } from "./run.ts";

const PROFILES = [
  { name: "default", text: DEFAULT_CONFIG },
  { name: "sticky-until-saturated", text: STICKY_CONFIG },
];

function configOf(text: string): EffectiveConfig {
  return loadConfig(parseDocument(text, { file: "test" }), PLUGIN_REGISTRY);
}

/** The same profile as it was before: all servers with 65,536 pending prompt tokens or more score 0. */
function clamped(text: string, weight: number): string {
  return text
    .replace(/queueThresholdTokens: \d+/, "queueThresholdTokens: 65536")
    .replace(/(pluginRef: token-load-scorer, weight: )\d+/, `$1${weight}`);
}

describe.each(PROFILES)("servers with more than 65,536 pending prompt tokens, under $name", ({ text }) => {
  const plugins = (of: string) =>
    configOf(of).profiles[0]!.plugins.map(
      ({ definition, name, parameters, weight }) =>
        [
          definition,
          {
            name,
            parameters: parameters as Readonly<Record<string, unknown>>,
            ...(weight === undefined ? {} : { weight }),
          },
        ] as const,
    );
  /** As many requests at each server, so that the pending tokens alone decide. */
  const endpoints = [900_000, 70_000, 300_000].map((tokens, i) => ({
    name: `server-${i}`,
    inFlight: { requests: 2, tokens },
  }));

  it("are told apart: the one with the fewest pending tokens gets the request", () => {
    const { order, scores } = expectPick({ plugins: plugins(text), endpoints }).toBe("server-1");
    expect(order).toEqual(["server-1", "server-2", "server-0"]);
    expect(Math.min(...Object.values(scores["token-load-scorer"]!))).toBeGreaterThan(0);
  });

  it("were all alike with the threshold of before", () => {
    expect(expectPick({ plugins: plugins(clamped(text, 6)), endpoints }).tied.length).toBe(3);
  });
});

/** Half of the servers of the workload, at half of its rate. */
function documents(text: string, seed: number) {
  const settings = { rate: 11, durationMs: 18_000, servers: 4 };
  const { config } = presetNamed(LONG_DOCUMENTS.preset)!;
  const { kinds, finished, requests } = simulate({
    ...{ ...settings, seed, workload: LONG_DOCUMENTS.make(settings), decides: { config: configOf(text) } },
    engine: (_, parts) => new BatchingEngine({ config, ...parts }),
  });
  expect(finished).toBe(requests);
  const ttftOf = (kind: string) => kinds.find((one) => one.kind === kind)!.ttft;
  return { document: ttftOf("document"), chat: ttftOf("chat") };
}

describe("documents of 20,000 to 100,000 tokens among chats", () => {
  // `node bench/routing.ts` judges the same with ten seeds, on every workload.
  const SEEDS = [1, 2, 3];
  const medianRatio = (text: string, weight: number) => {
    const pairs = SEEDS.map((seed) => [documents(text, seed), documents(clamped(text, weight), seed)] as const);
    return (of: (run: ReturnType<typeof documents>) => number): number =>
      spread(pairs.map(([now, before]) => of(now) / of(before))).median;
  };

  it("have a p99 at least 30 % shorter under the default than with the threshold of before, and so have the chats", () => {
    const ratio = medianRatio(DEFAULT_CONFIG, 3);
    expect(ratio(({ document }) => document.p99)).toBeLessThan(0.7);
    expect(ratio(({ chat }) => chat.p99)).toBeLessThan(0.7);
    expect(ratio(({ chat }) => chat.p90)).toBeLessThan(1.05);
  });

  it("have a p99 at least 30 % shorter under sticky-until-saturated, at no cost to the chats", () => {
    const ratio = medianRatio(STICKY_CONFIG, 6);
    expect(ratio(({ document }) => document.p99)).toBeLessThan(0.7);
    expect(ratio(({ chat }) => chat.p90)).toBeLessThan(1.05);
  });
});
