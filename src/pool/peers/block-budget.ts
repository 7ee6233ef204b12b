import type { Random } from "../../base/clock/random.ts";

/**
 * The most blocks of peers that a replica takes in in a second: about 4 % of a core, measured by `bench/replicas.ts`. Peers that place
 * more are heard in part.
 */
export const MOST_BLOCKS_A_SECOND = 131_072;
/** Milliseconds over which the rate is measured. */
const WINDOW = 1000;

/**
 * Bounds the work that placements of peers cause. Above the bound, an even part of the messages of each peer counts.
 * Blocks that are in use come again: each peer repeats some.
 */
export class BlockBudget {
  /** Blocks that came in the last window; older ones count less and less. */
  #offered = 0;
  #at = Number.NEGATIVE_INFINITY;
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  /**
   * Whether to take a message in.
   * @param blocks in the message, about
   * @param now monotonic milliseconds
   */
  takes(blocks: number, now: number): boolean {
    this.#offered = this.#offered * Math.exp((this.#at - now) / WINDOW) + blocks;
    this.#at = now;
    const share = MOST_BLOCKS_A_SECOND / this.#offered;
    // By chance, because peers that send in turn would else be heard always or never.
    return share >= 1 || this.#random.next() < share;
  }
}
