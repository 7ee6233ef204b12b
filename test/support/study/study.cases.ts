import type { KindResult, Quantiles, RunResult, StudiedWorkload, Study } from "../../../src/lab/study/result.ts";

/** @param p90 milliseconds; the others lie around it */
export function quantiles(p90: number): Quantiles {
  return { p50: p90 / 2, p90, p99: p90 * 1.1, mean: p90 / 1.8, max: p90 * 1.2 };
}

/** Times that no request has. */
export const NO_TIMES: Quantiles = {
  p50: Number.NaN,
  p90: Number.NaN,
  p99: Number.NaN,
  mean: Number.NaN,
  max: Number.NaN,
};

/** What a run without tenants, priorities and flow control has of them. */
export const NO_FLOW = {
  ...{ tenants: [], priorities: [], wait: NO_TIMES, jain: Number.NaN, wasted: 0, refusals: {} },
} as const;

export function kindOf(kind: string, p90: number, more: Partial<KindResult> = {}): KindResult {
  return {
    ...{ kind, requests: 100, finished: 100, rejected: 0, outputTokens: 1000 },
    ...{ ttft: quantiles(p90), e2e: quantiles(p90 * 3), wait: NO_TIMES, servedPerSecond: 2000 },
    ...more,
  };
}

export function runOf(
  policy: string,
  rate: number,
  seed: number,
  p90: number,
  more: Partial<RunResult> = {},
): RunResult {
  return {
    ...{ workload: "b2b-saas", rate, policy, seed, requests: rate * 45, finished: rate * 45, rejected: 0 },
    ...{ ttft: quantiles(p90), tpot: quantiles(20), e2e: quantiles(p90 * 3), makespan: 60 },
    ...{ outputTokensPerSecond: 250_000 / Math.sqrt(p90), requestsPerSecond: rate, hitRate: 0.8, maxToMeanLoad: 1.1 },
    ...{
      preemptions: 0,
      adapterLoads: 0,
      promptTokens: 7200.4,
      outputTokens: 249.6,
      kinds: [],
      servers: [],
      samples: [],
      ...NO_FLOW,
    },
    ...{ events: 1000, seconds: 1 },
    ...more,
  };
}

export function workloadOf(more: Partial<StudiedWorkload> = {}): StudiedWorkload {
  return {
    ...{ name: "b2b-saas", about: "150 customers with a system prompt each", rates: [10, 60], rateUnit: "requests/s" },
    ...{ servers: 8, preset: "qwen3-32b-2xh100", durationMs: 45_000, warmUp: undefined },
    ...{ scrapeIntervalMs: 50, metricsLagMs: 0 },
    ...more,
  };
}

export function studyOf(runs: readonly RunResult[], more: Partial<Study> = {}): Study {
  return {
    version: "1.0.0",
    workloads: [workloadOf({ rates: [...new Set(runs.map(({ rate }) => rate))] })],
    policies: [...new Set(runs.map(({ policy }) => policy))].map((name) => ({ name, about: `about ${name}` })),
    seeds: [...new Set(runs.map(({ seed }) => seed))],
    ...{ runs, speed: undefined },
    ...more,
  };
}
