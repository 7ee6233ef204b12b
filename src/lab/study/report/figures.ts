import type { KindResult, RunResult } from "../result.ts";
import type { Unit } from "./format.ts";

/** Something measured in a run, and which direction is good. */
export interface Figure<Of = RunResult> {
  readonly name: string;
  readonly unit: Unit;
  readonly better: "less" | "more";
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
export const REJECTED: Figure = { name: "Rejected", unit: "count", better: "less", of: (run) => run.rejected };

/** In the order of the tables. */
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
  { name: "Adapter loads", unit: "count", better: "less", of: (run) => run.adapterLoads },
];

/** Of each kind of requests, in the order of the tables. */
export const KIND_FIGURES: readonly Figure<KindResult>[] = [
  { name: "TTFT p50", unit: "ms", better: "less", of: (kind) => kind.ttft.p50 },
  { name: "TTFT p90", unit: "ms", better: "less", of: (kind) => kind.ttft.p90 },
  { name: "TTFT p99", unit: "ms", better: "less", of: (kind) => kind.ttft.p99 },
  { name: "e2e p90", unit: "ms", better: "less", of: (kind) => kind.e2e.p90 },
  { name: "Finished", unit: "count", better: "more", of: (kind) => kind.finished },
  { name: "Rejected", unit: "count", better: "less", of: (kind) => kind.rejected },
  { name: "Output tokens", unit: "tokens", better: "more", of: (kind) => kind.outputTokens },
];
