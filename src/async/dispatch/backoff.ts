import type { Random } from "../../base/clock/random.ts";

export interface Failure {
  /** Retries so far, >= 0. */
  readonly retryCount: number;
  /** > 0. */
  readonly secondsToDeadline: number;
  /** What the gateway asked for, seconds; undefined = nothing. */
  readonly retryAfter: number | undefined;
}

/** Longest pause without `Retry-After`, seconds. */
const LONGEST = 60;

/**
 * Seconds until the next attempt: from [2, 4) doubling to [30, 60), never beyond the deadline; `Retry-After` counts when it
 * is longer, up to half of the time left and a quarter on top. Source: async-processor 5.2.6.
 */
export function retryDelay({ retryCount, secondsToDeadline, retryAfter }: Failure, random: Random): number {
  const cap = Math.min(LONGEST, secondsToDeadline);
  const longest = Math.min(cap, 2 * 2 ** Math.min(retryCount + 1, 10));
  const delay = longest / 2 + (random.next() * longest) / 2;
  if (retryAfter === undefined || retryAfter <= delay) return delay;
  const asked = Math.min(retryAfter, secondsToDeadline / 2);
  return Math.max(delay, asked * (1 + random.next() / 4));
}
