/** The part of the means that each moment has. */
const NEW_PART = 1 / 32;

/**
 * How many requests peers send in the moments in which this process sends some: all of a burst come at once, and those of steady
 * traffic by chance. A moment begins with a request of this process and lasts for as long as news are on their way. The figure is the
 * slope of a line through the moments, so that those with many requests count more.
 */
export class Coincidence {
  #begun = Number.NEGATIVE_INFINITY;
  #own = 0;
  #ofPeers = 0;
  /** Means over the moments. */
  #products = 0;
  #squares = 0;

  /** This process sends a request. @param now monotonic milliseconds @param lagMs how long a moment lasts */
  sent(now: number, lagMs: number): void {
    if (now - this.#begun > lagMs) {
      if (this.#own > 0) {
        this.#products += (this.#own * this.#ofPeers - this.#products) * NEW_PART;
        this.#squares += (this.#own * this.#own - this.#squares) * NEW_PART;
      }
      this.#begun = now;
      this.#own = 0;
      this.#ofPeers = 0;
    }
    this.#own++;
  }

  /** A peer says that it has sent so many requests. */
  heard(requests: number, now: number, lagMs: number): void {
    if (now - this.#begun <= lagMs) this.#ofPeers += requests;
  }

  /** Requests of one of `peers` for each one of this process, 0 to 1. */
  share(peers: number): number {
    return this.#squares === 0 || peers === 0 ? 0 : Math.min(1, this.#products / this.#squares / peers);
  }
}
