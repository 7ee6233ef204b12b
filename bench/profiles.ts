/**
 * Where requests go, in virtual time: the built-in profiles, round robin, chance and least active on the same seeded
 * workloads, with the real scheduler in front of simulated servers. Times and loads as ratios to the default profile of the
 * same run.
 *
 *   node bench/profiles.ts [--seeds 5] [--workload PART-OF-A-NAME] [--config FILE]...
 *
 * Four servers of 16 slots and 65,536 tokens of KV cache. A prompt of 3,200 tokens that no cache holds takes 0.5 s to its
 * first token on an idle server and 1 s on a full one, a cached one 30 ms. What the engine leaves out: prompts computed at
 * the same time slow each other down by the load factor alone.
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { quantile } from "../src/app/demo/half.ts";
import { ROUND_ROBIN } from "../src/app/demo/round-robin.ts";
import { simulate } from "../src/app/simulate.ts";
import { STICKY_CONFIG } from "../src/config/defaults.ts";
import type { EngineConfig } from "../src/simulator/engine.ts";
import { DEFAULT_LATENCY } from "../src/simulator/latency.ts";
import { type SharedPrefixes, sharedPrefixes } from "./support/shared-prefixes.ts";

const { values } = parseArgs({
  options: { seeds: { type: "string" }, workload: { type: "string" }, config: { type: "string", multiple: true } },
});
const seeds = Number(values.seeds ?? 5);

const SERVERS = 4;
const SERVER: Partial<EngineConfig> = {
  maxNumSeqs: 16,
  kvCacheSize: 4096,
  blockSize: 16,
  latency: {
    ...DEFAULT_LATENCY,
    ...{ prefillOverhead: 10, prefillTimePerToken: 0.15, interTokenLatency: 12, timeFactorUnderLoad: 2 },
  },
};
const SLOW_SERVER = { ...SERVER, latency: { ...SERVER.latency!, timeScale: 2.5 } };

interface Workload {
  readonly shape: SharedPrefixes;
  readonly engine?: (server: number) => Partial<EngineConfig>;
  readonly metrics?: boolean;
}

/** All servers together hold the 48 prefixes of 3,072 tokens 1.8 times, one of them 21. */
const GROUPS: Omit<SharedPrefixes, "rate"> = {
  ...{ seconds: 30, groups: 48, shared: 3072 },
  own: [32, 160],
  output: [32, 96],
};
/** Round robin holds out up to about 27 requests per second. */
const WORKLOADS: Record<string, Workload> = {
  "48 prefixes, 16/s": { shape: { ...GROUPS, rate: 16 } },
  "48 prefixes, 34/s": { shape: { ...GROUPS, rate: 34 } },
  "prefixes with a common beginning of 60 %, 30/s": { shape: { ...GROUPS, rate: 30, common: 1900, shared: 1172 } },
  "half of a prompt shared, 24/s": { shape: { ...GROUPS, rate: 24, shared: 1500, own: [700, 1500] } },
  "a third of a prompt shared, 24/s": { shape: { ...GROUPS, rate: 24, shared: 700, own: [700, 2100] } },
  "one prefix in 70 % of requests, 34/s": { shape: { ...GROUPS, rate: 34, hot: 0.7 } },
  "the same, servers without metrics": { shape: { ...GROUPS, rate: 34, hot: 0.7 }, metrics: false },
  "bursts: 2 s of 70/s, 8 s of 12/s": { shape: { ...GROUPS, rate: 12, burst: { rate: 70, seconds: 2, every: 10 } } },
  "one of four servers 2.5 times slower, 24/s": {
    shape: { ...GROUPS, rate: 24 },
    engine: (server) => (server === 0 ? SLOW_SERVER : SERVER),
  },
};

/** A configuration that has one picker, or one scorer, and nothing else. */
const only = (type: string): string => `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: ${type}}]
schedulingProfiles: [{name: ${type}, plugins: [{pluginRef: ${type}}]}]
`;
const POLICIES: [name: string, configText: string | undefined][] = [
  ["default (classic)", undefined],
  ["sticky-until-saturated", STICKY_CONFIG],
  ["round robin", ROUND_ROBIN],
  ["random", only("random-picker")],
  ["least active", only("active-request-scorer")],
  ...(values.config ?? []).map((file): [string, string] => [file, readFileSync(file, "utf8")]),
];

interface Figures {
  /** Milliseconds: three quantiles and the mean. */
  readonly ttft: readonly number[];
  readonly load: number;
  readonly hits: number;
}

/** The requests of all seeds together; load and hits are means over seeds. */
function run({ shape, engine, metrics }: Workload, configText: string | undefined): Figures {
  const ttfts: number[] = [];
  let load = 0;
  let hits = 0;
  for (let seed = 1; seed <= seeds; seed++) {
    const result = simulate({
      ...{ servers: SERVERS, engine: engine ?? SERVER, metrics, seed },
      workload: sharedPrefixes(seed, shape),
      ...(configText === undefined ? {} : { configText }),
    });
    if (result.rejected > 0) throw new Error(`${result.rejected} requests were refused`);
    for (const ttft of result.ttfts) ttfts.push(ttft);
    load += result.maxToMeanLoad / seeds;
    hits += result.cacheHitRate / seeds;
  }
  ttfts.sort((a, b) => a - b);
  const mean = ttfts.reduce((sum, ttft) => sum + ttft, 0) / ttfts.length;
  return { ttft: [...[0.5, 0.9, 0.99].map((q) => quantile(ttfts, q)), mean], load, hits };
}

const started = performance.now();
for (const [name, workload] of Object.entries(WORKLOADS)) {
  if (!name.includes(values.workload ?? "")) continue;
  const rows: Record<string, Record<string, string>> = {};
  let reference: Figures | undefined;
  for (const [policy, configText] of POLICIES) {
    const figures = run(workload, configText);
    reference ??= figures;
    const { ttft, load, hits } = figures;
    const times = ttft.map((ms, i) => `${ms.toFixed(0)} ms ${(ms / reference!.ttft[i]!).toFixed(2)}x`);
    rows[policy] = {
      ...{ "TTFT p50": times[0]!, p90: times[1]!, p99: times[2]!, mean: times[3]! },
      "cache hits": `${(hits * 100).toFixed(0)} % ${(hits / reference.hits).toFixed(2)}x`,
      "max/mean load": `${load.toFixed(2)} ${(load / reference.load).toFixed(2)}x`,
    };
  }
  console.log(`\n${name}`);
  console.table(rows);
}
console.log(`${seeds} seeds, ${((performance.now() - started) / 1000).toFixed(0)} s`);
