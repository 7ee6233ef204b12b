import { backlogPerSecond, EQUAL_WITHIN, type KindResult, type RunResult } from "../result.ts";

/** A measured quantity of a run, and its good direction. */
export interface Figure<Of = RunResult> {
  readonly name: string;
  readonly unit: Unit;
  readonly better: "less" | "more";
  /** Shown only if it is above 0 for some policy. */
  readonly unlessZero?: true;
  of(result: Of): number;
}

export const TTFT_P90: Figure = { name: "TTFT p90", unit: "ms", better: "less", of: (run) => run.ttft.p90 };
export const E2E_P90: Figure = { name: "e2e p90", unit: "ms", better: "less", of: (run) => run.e2e.p90 };
export const THROUGHPUT: Figure = {
  ...{ name: "Output tokens/s", unit: "tokens/s", better: "more" },
  of: (run) => run.outputTokensPerSecond,
};
export const HIT_RATE: Figure = { name: "Cache hit rate", unit: "share", better: "more", of: (run) => run.hitRate };
export const LOAD_SPREAD: Figure = {
  ...{ name: "Max/mean load", unit: "ratio", better: "less" },
  of: (run) => run.maxToMeanLoad,
};
/** Where the figure is not 0 for any policy. */
const unlessZero = true;
const REJECTED: Figure = { name: "Rejected", unit: "count", better: "less", of: (run) => run.rejected };

/** All figures in the order of the tables. */
export const FIGURES: readonly Figure[] = [
  { name: "TTFT p50", unit: "ms", better: "less", of: (run) => run.ttft.p50 },
  TTFT_P90,
  { name: "TTFT p99", unit: "ms", better: "less", of: (run) => run.ttft.p99 },
  { name: "TTFT mean", unit: "ms", better: "less", of: (run) => run.ttft.mean },
  E2E_P90,
  { name: "TPOT p50", unit: "ms", better: "less", of: (run) => run.tpot.p50 },
  THROUGHPUT,
  HIT_RATE,
  LOAD_SPREAD,
  REJECTED,
  { name: "Preemptions", unit: "count", better: "less", of: (run) => run.preemptions },
  { name: "Adapter loads", unit: "count", better: "less", unlessZero, of: (run) => run.adapterLoads },
  { name: "Queue wait p50", unit: "ms", better: "less", unlessZero, of: (run) => run.wait.p50 },
  { name: "Queue wait p90", unit: "ms", better: "less", unlessZero, of: (run) => run.wait.p90 },
  { name: "Queue wait p99", unit: "ms", better: "less", unlessZero, of: (run) => run.wait.p99 },
  { name: "Jain index of tenants", unit: "ratio", better: "more", unlessZero, of: (run) => run.jain },
  { name: "Wasted tokens", unit: "share", better: "less", unlessZero, of: (run) => run.wasted },
  { name: "Backlog tokens/s", unit: "tokens/s", better: "more", unlessZero, of: backlogPerSecond },
];

/** The figures of each kind of requests, in the order of the tables. */
export const KIND_FIGURES: readonly Figure<KindResult>[] = [
  { name: "TTFT p50", unit: "ms", better: "less", of: (kind) => kind.ttft.p50 },
  { name: "TTFT p90", unit: "ms", better: "less", of: (kind) => kind.ttft.p90 },
  { name: "TTFT p99", unit: "ms", better: "less", of: (kind) => kind.ttft.p99 },
  { name: "e2e p90", unit: "ms", better: "less", of: (kind) => kind.e2e.p90 },
  { name: "Finished", unit: "count", better: "more", of: (kind) => kind.finished },
  { name: "Rejected", unit: "count", better: "less", of: (kind) => kind.rejected },
  { name: "Output tokens", unit: "tokens", better: "more", of: (kind) => kind.outputTokens },
  { name: "Queue wait p90", unit: "ms", better: "less", unlessZero, of: (kind) => kind.wait.p90 },
  { name: "Served tokens/s", unit: "tokens/s", better: "more", of: (kind) => kind.servedPerSecond },
];

/** The unit of a figure. */
export type Unit = "ms" | "tokens/s" | "share" | "ratio" | "count" | "tokens";

/** Shown in place of a missing number, for example the TTFT of a run in which no request finished. */
export const NO_NUMBER = "–";

const small = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 3 });
const large = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

/** Three digits below 1,000, all digits above. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return NO_NUMBER;
  return Math.abs(value) < 1000 ? small.format(value) : large.format(value);
}

/** A figure for people, with its unit if it has one. */
export function formatted(value: number, unit: Unit): string {
  if (!Number.isFinite(value)) return NO_NUMBER;
  switch (unit) {
    case "ms":
      return value < 1000 ? `${number(value)} ms` : `${number(value / 1000)} s`;
    case "share":
      return `${number(value * 100)} %`;
    case "ratio":
      return value.toFixed(2);
    default:
      return number(value);
  }
}

/** The advantage of the better one, for a sentence. @param factor worse divided by better, >= 1: 142x from 2 on, 4 % below */
export function advantage(factor: number): string {
  if (factor >= 2) return `${factor >= 10 ? large.format(factor) : factor.toFixed(1)}x`;
  return `${Math.round((factor - 1) * 100)} %`;
}

/** The advantage below which two figures count as equal, for sentences. */
export const EQUAL_SHARE = advantage(EQUAL_WITHIN);

/** The comparison of two figures. */
interface Standing {
  /** False when they are equal. */
  readonly ahead: boolean;
  readonly equal: boolean;
  /** Worse divided by better, >= 1. */
  readonly factor: number;
}

/** @returns undefined when one of the two is not a positive number, unless they are equal */
export function standing(one: number, other: number, better: "less" | "more"): Standing | undefined {
  if (one === other) return { ahead: false, equal: true, factor: 1 };
  if (!(one > 0 && other > 0 && Number.isFinite(one) && Number.isFinite(other))) return undefined;
  const factor = Math.max(one, other) / Math.min(one, other);
  const equal = factor < EQUAL_WITHIN;
  return { ahead: !equal && (better === "less" ? one < other : one > other), equal, factor };
}
