/** Milliseconds over which the rate is smoothed. */
const WINDOW = 10_000;
/** Dispatches per millisecond below which the rate says nothing: one a minute. */
const LEAST = 1 / 60_000;

/** How many requests leave flow control, smoothed exponentially. */
export class DispatchRate {
  /** Dispatches per millisecond at `#measuredAt`. */
  #rate = 0;
  #measuredAt = 0;

  /** A request leaves. @param now monotonic milliseconds */
  dispatched(now: number): void {
    this.#rate = this.#at(now) + 1 / WINDOW;
    this.#measuredAt = now;
  }

  /**
   * Milliseconds in which this many requests leave.
   * @returns undefined = almost none leaves, so the rate says nothing
   */
  timeFor(requests: number, now: number): number | undefined {
    const rate = this.#at(now);
    return rate < LEAST ? undefined : requests / rate;
  }

  #at(now: number): number {
    return this.#rate * Math.exp((this.#measuredAt - now) / WINDOW);
  }
}
