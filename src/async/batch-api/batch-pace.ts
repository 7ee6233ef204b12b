import { isOpen } from "./batch-status.ts";
import type { StoredBatch } from "./records.ts";

/** How fast a batch is, for people. */
export interface ShownPace {
  /** Lines in the queue or at the model servers. */
  readonly underWay: number;
  readonly linesPerSecond: number;
  /** Seconds until the last answer at this rate; null = not known, or ended. */
  readonly etaSeconds: number | null;
  /** Whether the last answer comes before the deadline at this rate; null = not known, or ended. */
  readonly makesIt: boolean | null;
}

/** @param now Unix seconds */
export function paceOf(batch: StoredBatch, now: number): ShownPace {
  const { status, total, completed, failed, rate, underWay, expiresAt } = batch;
  const open = isOpen(status);
  const left = total - completed - failed;
  const running = status === "in_progress" && total > 0;
  const eta = running && (rate > 0 || left === 0) ? left / Math.max(rate, 1e-9) : undefined;
  return {
    underWay: open ? underWay : 0,
    linesPerSecond: open ? roundedRate(rate) : 0,
    etaSeconds: eta === undefined ? null : Math.round(eta),
    makesIt: eta === undefined ? null : now + eta <= expiresAt,
  };
}

/** With two digits behind the point. */
export function roundedRate(rate: number): number {
  return Math.round(rate * 100) / 100;
}
