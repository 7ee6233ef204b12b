/** The weight of each new moment in the means. */
const NEW_PART = 1 / 32;
/** Counts as one more moment, with one own request and none of a peer, so that the first moments weigh less. */
const PRIOR = NEW_PART;

/**
 * How many requests peers send in the moments in which this process sends some: all of a burst come at once, and those of steady
 * traffic by chance. A moment begins with a request of this process and lasts for as long as news are on their way. The figures are
 * slopes of lines through the moments, so that those with many requests count more.
 */
export class Coincidence {
  #begun = Number.NEGATIVE_INFINITY;
  /** Since then: in the moment, and until the next one. */
  #own = 0;
  #ofPeers = 0;
  #allOfPeers = 0;
  /** Means over the moments. */
  readonly #means = { own: 0, squares: 0, products: 0, ofPeers: 0, milliseconds: 0 };

  /** This process sends a request. @param now monotonic milliseconds @param lagMs how long a moment lasts */
  sent(now: number, lagMs: number): void {
    if (now - this.#begun > lagMs) {
      if (this.#own > 0) this.#close(now);
      this.#begun = now;
      this.#own = 0;
      this.#ofPeers = 0;
      this.#allOfPeers = 0;
    }
    this.#own++;
  }

  /** A peer says that it has sent so many requests. */
  heard(requests: number, now: number, lagMs: number): void {
    this.#allOfPeers += requests;
    if (now - this.#begun <= lagMs) this.#ofPeers += requests;
  }

  /** Requests of one of `peers` for each one of this process, 0 to 1. */
  share(peers: number): number {
    return this.#slope(this.#means.products, peers);
  }

  /** The part of them that does not come by chance, 0 to 1. */
  together(peers: number, lagMs: number): number {
    const { own, products, ofPeers, milliseconds } = this.#means;
    return milliseconds === 0 ? 0 : this.#slope(products - (own * ofPeers * lagMs) / milliseconds, peers);
  }

  /** Requests of all peers that are on their way to this process on average: those of a lag. 1 before the first moment is over. */
  unheard(lagMs: number): number {
    const { ofPeers, milliseconds } = this.#means;
    return milliseconds === 0 ? 1 : (ofPeers * lagMs) / milliseconds;
  }

  #close(now: number): void {
    const means = this.#means;
    means.own += (this.#own - means.own) * NEW_PART;
    means.squares += (this.#own ** 2 - means.squares) * NEW_PART;
    means.products += (this.#own * this.#ofPeers - means.products) * NEW_PART;
    means.ofPeers += (this.#allOfPeers - means.ofPeers) * NEW_PART;
    means.milliseconds += (now - this.#begun - means.milliseconds) * NEW_PART;
  }

  #slope(products: number, peers: number): number {
    return peers === 0 ? 0 : Math.min(1, Math.max(0, products / (this.#means.squares + PRIOR) / peers));
  }
}
