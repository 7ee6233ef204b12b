import { SeededRandom } from "../../../../src/base/clock/random.ts";
import type {
  KindResult,
  LoadSample,
  Quantiles,
  RunResult,
  StudiedWorkload,
  Study,
} from "../../../../src/lab/study/result.ts";
import { NO_FLOW, NO_TIMES } from "../study.cases.ts";

/** Times around a p90, in milliseconds. */
export function quantiles(p90: number): Quantiles {
  return { p50: p90 * 0.4, p90, p99: p90 * 1.6, mean: p90 * 0.5, max: p90 * 2 };
}

/** One run; whatever a test does not care about is plausible. */
export function runResult(
  given: Partial<RunResult> & Pick<RunResult, "workload" | "rate" | "policy" | "seed">,
): RunResult {
  const requests = given.requests ?? Math.round(given.rate * 45);
  return {
    ...{ requests, finished: requests, rejected: 0 },
    ...{ ttft: quantiles(500), tpot: quantiles(22), e2e: quantiles(7000), makespan: 52 },
    ...{ outputTokensPerSecond: given.rate * 240, requestsPerSecond: given.rate, hitRate: 0.6, maxToMeanLoad: 1.2 },
    ...{ preemptions: 0, adapterLoads: 0, promptTokens: 7204, outputTokens: 251 },
    ...NO_FLOW,
    ...{ kinds: [], servers: [], samples: [], events: requests * 40, seconds: requests / 3000 },
    ...given,
  };
}

/** A run in which every request was refused. */
export function refused(given: Parameters<typeof runResult>[0]): RunResult {
  const run = runResult(given);
  return {
    ...run,
    ...{ finished: 0, rejected: run.requests, ttft: NO_TIMES, tpot: NO_TIMES, e2e: NO_TIMES, makespan: Number.NaN },
    ...{ outputTokensPerSecond: Number.NaN, requestsPerSecond: Number.NaN, hitRate: Number.NaN, maxToMeanLoad: 1 },
    ...{ promptTokens: Number.NaN, outputTokens: Number.NaN },
  };
}

/** Kinds of requests, of which each waits a millisecond longer than the one before. */
export function tenants(count: number): KindResult[] {
  return Array.from({ length: count }, (_, i): KindResult => {
    const times = { ttft: quantiles(100 + i), e2e: quantiles(1000 + i), wait: NO_TIMES };
    const counts = { requests: 10, finished: 10, rejected: 0, outputTokens: 2500, servedPerSecond: 100 };
    return { kind: `tenant-${i}`, ...counts, ...times };
  });
}

export const WORKLOAD: StudiedWorkload = {
  ...{ name: "b2b-saas", about: "150 groups of requests that share a system prompt of 6,000 tokens." },
  ...{ rates: [60], rateUnit: "requests/s", servers: 8, preset: "qwen3-32b-2xh100" },
  ...{ durationMs: 45_000, warmUp: undefined, scrapeIntervalMs: 50, metricsLagMs: 0 },
};

export const policy = (name: string) => ({ name, about: `${name}, as it is.` });

/** A study of one workload, whose rates, policies and seeds are those of the runs. */
export function studyOf(runs: readonly RunResult[], policies: readonly string[]): Study {
  const rates = [...new Set(runs.map(({ rate }) => rate))];
  const seeds = [...new Set(runs.map(({ seed }) => seed))];
  const workloads = [{ ...WORKLOAD, rates }];
  return { version: "1.2.3", workloads, policies: policies.map(policy), seeds, runs, speed: undefined };
}

/** How a policy does at a rate: a knee behind which waiting grows with every request. */
interface Character {
  readonly name: string;
  readonly knee: number;
  readonly hitRate: number;
  readonly spread: number;
}

const CHARACTERS: readonly Character[] = [
  { name: "round-robin", knee: 18, hitRate: 0.14, spread: 1.15 },
  { name: "least-active", knee: 21, hitRate: 0.17, spread: 1.06 },
  { name: "classic-blend", knee: 48, hitRate: 0.79, spread: 1.41 },
  { name: "default", knee: 55, hitRate: 0.84, spread: 1.12 },
];
const RATES = [3, 10, 18, 25, 32, 40, 50, 60];
const SEEDS = [1, 2, 3];
const SERVERS = 8;

function samples(rate: number, over: number, spread: number, random: SeededRandom): LoadSample[] {
  return Array.from({ length: 60 }, (_, at) => ({
    at,
    loads: Array.from({ length: SERVERS }, (_, server) => {
      const mean = rate * 0.9 + over * Math.min(at, 45) * (at > 45 ? (60 - at) / 15 : 1);
      const tilt = 1 + (spread - 1) * Math.cos(server + at / 9) + random.next() * 0.1;
      return Math.max(0, Math.round((mean * tilt) / 2));
    }),
  }));
}

function character(workload: string, rate: number, seed: number, index: number, flat: boolean): RunResult {
  const { name, knee, hitRate, spread } = CHARACTERS[index]!;
  const random = new SeededRandom(seed * 1000 + rate * 10 + index);
  const luck = flat ? 0.98 + random.next() * 0.04 : 0.92 + random.next() * 0.16;
  const limit = flat ? 26 : knee;
  const over = Math.max(0, rate - limit);
  const p90 = (180 + rate * 6 + over * over * 48 + over * 300) * luck * (flat && name === "least-active" ? 0.88 : 1);
  const kind = (of: string, factor: number, share: number): KindResult => ({
    ...{ kind: of, requests: Math.round(rate * 45 * share), finished: Math.round(rate * 45 * share), rejected: 0 },
    ...{
      ttft: quantiles(p90 * factor),
      e2e: quantiles(p90 * factor + 5000),
      wait: NO_TIMES,
      outputTokens: Math.round(rate * 11_000 * share),
      servedPerSecond: Math.round(rate * 1200 * share),
    },
  });
  return runResult({
    ...{ workload, rate, policy: name, seed, ttft: quantiles(p90), e2e: quantiles(p90 + 6200 * luck) },
    tpot: quantiles(14 + Math.min(rate, limit) * 0.4 * luck),
    outputTokensPerSecond: Math.min(rate, limit + over * 0.1) * 243 * luck,
    hitRate: flat ? 0.05 + random.next() * 0.02 : hitRate * luck,
    maxToMeanLoad: spread * (1 + (luck - 0.92) * 0.4),
    preemptions: Math.round(over * 3 * luck),
    promptTokens: 7200 + random.next() * 10,
    outputTokens: 248 + random.next() * 6,
    kinds: flat ? [kind("realtime", 0.4, 0.7), kind("batch", 2.5, 0.3)] : [],
    samples: rate === 60 || (flat && rate === 40) ? samples(rate, over, spread, random) : [],
  });
}

/**
 * Two ladders and a single rate, four policies, three seeds. The second ladder has kinds, and is one that default loses by a little;
 * at the single rate round-robin refuses everything, and least-active does so with one of the seeds.
 */
export function fullStudy(): Study {
  const each = <T>(of: (index: number, seed: number) => T): T[] =>
    CHARACTERS.flatMap((_, index) => SEEDS.map((seed) => of(index, seed)));
  const overload = each((index, seed): RunResult => {
    const { name } = CHARACTERS[index]!;
    const run = {
      ...character("overload", 90, seed, index, false),
      samples: [],
      adapterLoads: 40 * (4 - index) + seed,
    };
    return index === 0 || (index === 1 && seed === 2) ? refused(run) : { ...run, policy: name, rejected: 100 * seed };
  });
  const flat = RATES.slice(0, 6);
  return {
    version: "1.2.3",
    workloads: [
      { ...WORKLOAD, rates: RATES },
      {
        ...{ ...WORKLOAD, name: "low-prefix-share", rates: flat, metricsLagMs: 2000 },
        about: "Hardly any prefix is shared; realtime requests beside a backlog of batch ones.",
      },
      { ...WORKLOAD, name: "overload", about: "More than the servers can take, and short queues.", rates: [90] },
    ],
    policies: CHARACTERS.map(({ name }) => policy(name)),
    seeds: SEEDS,
    runs: [
      ...RATES.flatMap((rate) => each((index, seed) => character("b2b-saas", rate, seed, index, false))),
      ...flat.flatMap((rate) => each((index, seed) => character("low-prefix-share", rate, seed, index, true))),
      ...overload,
    ],
    speed: { requestsPerSecond: 2140, bareRequestsPerSecond: 5230 },
  };
}
