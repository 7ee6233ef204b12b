import { listed } from "../../base/document/words.ts";
import type { WarmUp } from "../simulator/workloads/workload.ts";
import type { SimPickers } from "./picker-flags.ts";

/** Milliseconds, or the unit in the name; NaN without values. */
export interface Quantiles {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly mean: number;
  readonly max: number;
}

/** Two figures with a smaller factor between them count as equal where ranges over seeds cannot tell. */
export const EQUAL_WITHIN = 1.05;

/** The results of the requests of one kind, one tenant (fairness ID) or one priority. */
export interface KindResult {
  /** Its name. */
  readonly kind: string;
  readonly requests: number;
  readonly finished: number;
  readonly rejected: number;
  readonly ttft: Quantiles;
  readonly e2e: Quantiles;
  /** Milliseconds in flow control, of the requests that went on to a server; NaN without flow control. */
  readonly wait: Quantiles;
  readonly outputTokens: number;
  /**
   * Tokens of prompts and answers per second, those that appeared while requests arrived. Tokens of requests that were evicted
   * do not count.
   */
  readonly servedPerSecond: number;
}

/** The results of one server. */
export interface ServerResult {
  /** Counted requests that ended there. */
  readonly requests: number;
  /** Mean number of requests at the server, during the counted arrivals. */
  readonly meanLoad: number;
  /** Cached prompt tokens divided by all prompt tokens, 0..1; NaN without any. */
  readonly hitRate: number;
}

/** One moment of a run, for plots. */
export interface LoadSample {
  /** Seconds since the start. */
  readonly at: number;
  /** Requests at each server, running and waiting. */
  readonly loads: readonly number[];
}

/** One workload at one rate under one policy with one seed. */
export interface RunResult {
  readonly workload: string;
  readonly rate: number;
  readonly policy: string;
  readonly seed: number;
  readonly requests: number;
  readonly finished: number;
  readonly rejected: number;
  /** Milliseconds from arrival to the first token. */
  readonly ttft: Quantiles;
  /** Milliseconds per token after the first, one value per request. */
  readonly tpot: Quantiles;
  /** Milliseconds from arrival to the last token. */
  readonly e2e: Quantiles;
  /** Seconds from the first arrival to the last token. */
  readonly makespan: number;
  /** Mean over the makespan. */
  readonly outputTokensPerSecond: number;
  readonly requestsPerSecond: number;
  /** Cached prompt tokens divided by all prompt tokens, 0..1. */
  readonly hitRate: number;
  /**
   * Requests at the busiest server divided by those at the mean one, each summed over the time of the counted arrivals; 1 =
   * even.
   */
  readonly maxToMeanLoad: number;
  readonly preemptions: number;
  readonly adapterLoads: number;
  /** Mean lengths of the run. */
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Empty when the workload has no kinds. */
  readonly kinds: readonly KindResult[];
  /** By fairness ID, empty when the requests have none; and by priority. */
  readonly tenants: readonly KindResult[];
  readonly priorities: readonly KindResult[];
  /** Milliseconds in flow control, of the requests that went on to a server; NaN without flow control. */
  readonly wait: Quantiles;
  /** Jain's index over the tokens that the tenants were served, from 1/tenants to 1 = even; NaN with fewer than two. */
  readonly jain: number;
  /**
   * Tokens that servers computed for requests that ended without an answer, divided by all that they computed, 0..1. The
   * prompt of an evicted request counts whole as soon as a server begins it.
   */
  readonly wasted: number;
  /** Requests that were refused or evicted, by reason. */
  readonly refusals: Readonly<Record<string, number>>;
  readonly servers: readonly ServerResult[];
  /** A sample per second, at most 600 (then thinned); only on request. */
  readonly samples: readonly LoadSample[];
  /** Events of the virtual clock, and seconds of real time. */
  readonly events: number;
  readonly seconds: number;
}

/** The least, the median and the most of a figure over seeds. */
export interface Spread {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

/** @param values at least one; NaN counts as the most. */
export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => (Number.isNaN(a) ? 1 : Number.isNaN(b) ? -1 : a - b));
  const middle = (sorted.length - 1) / 2;
  const median = (sorted[Math.floor(middle)]! + sorted[Math.ceil(middle)]!) / 2;
  return { min: sorted[0]!, median, max: sorted.at(-1)! };
}

/** All results of a simulation, with its settings: the source of tables and reports, and the output of `--json`. */
export interface Study {
  /** Version of Sluice. */
  readonly version: string;
  readonly workloads: readonly StudiedWorkload[];
  /** In the order of display; ratios are to the first. */
  readonly policies: readonly StudiedPolicy[];
  readonly seeds: readonly number[];
  readonly runs: readonly RunResult[];
  /** Number of planned runs; absent = each workload at each rate under each policy with each seed. */
  readonly planned?: number | undefined;
  /** Simulated requests per second of real time: of a run, and of the same arrivals and engines without a scheduler. */
  readonly speed: { readonly requestsPerSecond: number; readonly bareRequestsPerSecond: number } | undefined;
}

export interface StudiedWorkload {
  readonly name: string;
  readonly about: string;
  readonly rates: readonly number[];
  readonly rateUnit: string;
  readonly servers: number;
  readonly preset: string;
  readonly durationMs: number;
  /** Traffic before the measurement; undefined = the servers began with empty caches. */
  readonly warmUp: WarmUp | undefined;
  readonly scrapeIntervalMs: number;
  readonly metricsLagMs: number;
  /** Absent = one picker. */
  readonly pickers?: SimPickers | undefined;
}

export interface StudiedPolicy {
  readonly name: string;
  /** A sentence for people. */
  readonly about: string;
}

/** Whether flow control took part in some of the runs. */
export function anyFlowControl(runs: readonly RunResult[]): boolean {
  return runs.some(({ wait }) => Number.isFinite(wait.p50));
}

/** Served tokens per second of the requests that may be shed: those of a priority below 0. */
export function backlogPerSecond({ priorities }: RunResult): number {
  return priorities.reduce((sum, { kind, servedPerSecond }) => (Number(kind) < 0 ? sum + servedPerSecond : sum), 0);
}

/** Shorter waits prove no queue, even with a short time of arrivals. */
const LEAST_MS = 1000;
/** Share of the time of arrivals. A longer wait means a queue that grew during that time. */
const SHARE = 0.1;

/**
 * Whether a policy keeps up with a rate. Otherwise its queues grow while requests arrive, and its times and ratios depend on
 * the length of the run.
 * @param ttftP90 milliseconds; NaN = no request finished, so no statement is possible
 * @param durationMs of the arrivals
 */
export function keepsUp(ttftP90: number, durationMs: number): boolean {
  return !(ttftP90 > Math.max(LEAST_MS, durationMs * SHARE));
}

/**
 * A warning about ratios to policies that do not keep up; undefined when all keep up.
 * @param names of the policies that do not keep up @param at such as `60 requests/s`
 * @param lower whether lower rates were run, too @param ratio its name where the reader sees it
 */
export function behindText(
  names: readonly string[],
  at: string,
  lower: boolean,
  ratio = "`faster`",
): string | undefined {
  if (names.length === 0) return undefined;
  const [they, their] = names.length === 1 ? ["does", "its"] : ["do", "their"];
  const advice = lower ? "; compare the lower rates" : "";
  return (
    `At ${at} ${listed(names)} ${they} not keep up: ${their} queues and TTFT grow as long as requests arrive. ` +
    `At this rate, ${ratio} says little${advice}.`
  );
}
