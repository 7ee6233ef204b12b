/**
 * A limit per minute as a bucket: use fills it, and it drains at a steady rate. A bucket that is empty takes the whole limit at
 * once. So a stretch of T seconds has at most `limit x (1 + T / 60)` of use, and a long one has the limit (docs/adr/0028-limits.md).
 */
export interface Meter {
  /** What is in the bucket at `at`; above the limit it is debt. Never below 0. */
  used: number;
  /** Monotonic ms of `used`. */
  at: number;
}

/** Milliseconds in which a full bucket drains. */
export const MINUTE = 60_000;
/** The most debt, as a multiple of the limit: a caller whose answers were far longer than expected waits at most this many minutes. */
export const MOST_USED = 10;

/**
 * Lets the bucket drain until now. A clock that stands still or goes back drains nothing.
 * @param perMs what drains in a millisecond
 */
export function drain(meter: Meter, perMs: number, now: number): void {
  const passed = now - meter.at;
  if (passed > 0) meter.used = Math.max(0, meter.used - passed * perMs);
  meter.at = now;
}

/** Adds use, or takes it back where `amount` is below 0. @returns what was added, within the bounds of the bucket */
export function fill(meter: Meter, amount: number, limit: number): number {
  const before = meter.used;
  meter.used = Math.min(Math.max(0, before + amount), Math.max(before, limit * MOST_USED));
  return meter.used - before;
}

/** Milliseconds until `amount` fits beside what is used; 0 = it fits now. @param perMs what drains in a millisecond, above 0 */
export function waitFor(meter: Meter, amount: number, limit: number, perMs: number): number {
  // A part in a billion: drained figures are no whole numbers.
  const over = meter.used + amount - limit;
  return over <= limit * 1e-9 ? 0 : over / perMs;
}
