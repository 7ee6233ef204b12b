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

  #now(now: number): number {
    return this.#rate * Math.exp((this.#at - now) / WINDOW);
  }
}
