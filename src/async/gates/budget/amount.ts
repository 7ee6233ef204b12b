import type { BudgetUnit } from "../../../base/plugin/gate.ts";

/** What N is computed from (async-processor 2.1). */
export interface BudgetFigures {
  /** max_SYS in `unit`, > 0. */
  readonly maxSys: number;
  /** Dispatch budget D; values outside 0..1 are clamped. */
  readonly budget: number;
  /** Reserved baseline B, 0..1. */
  readonly baseline: number;
  readonly unit: BudgetUnit;
}

/**
 * Doubles lose up to this much where the exact product is whole: 50 x (0.95 - 0.05) comes out as 44.99999999999999.
 * A plain floor is wrong in 215 of 900 such cases on a grid of 1 % (async-processor 2.3).
 */
const SLACK = 1e-9;

/**
 * N = max_SYS x (D - B): how much may run at the same time, never negative; whole for requests, real for tokens and bytes.
 * 0 when D <= B, and for anything that is no number. Source: seed 004, async-processor 2.2 and 2.3.
 */
export function amount({ maxSys, budget, baseline, unit }: BudgetFigures): number {
  const d = Math.min(1, Math.max(0, budget));
  // Written so that NaN is closed.
  if (!(d > baseline && maxSys > 0)) return 0;
  return rounded(maxSys * (d - baseline), unit);
}

/** `raw` as an amount of `unit`: requests are whole, and nothing is below 0. */
export function rounded(raw: number, unit: BudgetUnit): number {
  return Math.max(0, unit === "requests" ? Math.floor(raw + SLACK) : raw);
}

export interface Fit {
  /** What is still free, in the unit of `cost`. */
  readonly allowance: number;
  /** > 0. */
  readonly cost: number;
  /** Most that could ever be free: max_SYS x (1 - B). */
  readonly most: number;
  /** The gate is open at all: D > B. */
  readonly open: boolean;
  /** Nothing of ours runs against this capacity. */
  readonly idle: boolean;
}

/**
 * Whether one request may go. When nothing of ours runs, an open gate lets one go alone where N comes out as 0, so that
 * dispatching does not stall just above B, and where it could never fit (async-processor 2.3, rules 2 and 4).
 */
export function fits({ allowance, cost, most, open, idle }: Fit): boolean {
  if (cost <= allowance + SLACK) return true;
  return open && idle && (allowance < 1 || cost > most);
}
