/** Milliseconds over which the rate is smoothed. */
const WINDOW = 10_000;
/** Dispatches per millisecond below which the rate says nothing: one a minute. */
const LEAST = 1 / 60_000;

/** How fast requests leave, smoothed over 10 s. Times are monotonic milliseconds. */
export class DispatchRate {
  /** Dispatches per millisecond at `#at`. */
  #rate = 0;
  #at = 0;

  /** Counts one dispatch. */
  count(now: number): void {
    this.#rate = this.#now(now) + 1 / WINDOW;
    this.#at = now;
  }

  /** Milliseconds in which this many requests leave; undefined while hardly any leaves. */
  timeFor(requests: number, now: number): number | undefined {
    const rate = this.#now(now);
    return rate < LEAST ? undefined : requests / rate;
  }

  /**
   * Whole seconds after which another try makes sense, 1 to 60: then a request would probably leave that has this many before it.
   * Undefined while hardly any leaves.
   */
  retryAfter(before: number, now: number): number | undefined {
    const ms = this.timeFor(before + 1, now);
    return ms === undefined ? undefined : Math.min(60, Math.max(1, Math.ceil(ms / 1000)));
  }

  #now(now: number): number {
    return this.#rate * Math.exp((this.#at - now) / WINDOW);
  }
}
