import { type Random, SeededRandom } from "../../../base/clock/random.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import { gaussian } from "../latency.ts";

/** Log-normal lengths in tokens, cut at both ends. */
export interface TokenLengths {
  /** Mean of the distribution before the cut, > 0. */
  readonly mean: number;
  /** Standard deviation of the logarithm, >= 0. At 0.7 a tenth of the lengths exceed twice the mean. */
  readonly sigma: number;
  /** The shortest length, >= 1. */
  readonly least: number;
  readonly most: number;
}

/** One length. */
export function drawTokens(random: Random, { mean, sigma, least, most }: TokenLengths): number {
  const length = mean * Math.exp(sigma * gaussian(random) - sigma ** 2 / 2);
  return Math.round(Math.min(most, Math.max(least, length)));
}

/** A share of all values, and the value that this share does not exceed. */
export type Quantile = readonly [share: number, value: number];

/**
 * A distribution given by its quantiles. Between two of them the logarithm of the value grows evenly. That suits lengths and
 * times, where each quantile is a multiple of the one before it.
 */
export class QuantileFunction {
  readonly #quantiles: readonly Quantile[];

  /**
   * @param quantiles at least two, from share 0 to share 1, shares ascending, values above 0 and not descending
   * @throws SluiceError WORKLOAD_INVALID
   */
  constructor(quantiles: readonly Quantile[]) {
    if (quantiles.length < 2 || quantiles[0]![0] !== 0 || quantiles.at(-1)![0] !== 1)
      throw new SluiceError("WORKLOAD_INVALID", "quantiles must begin at share 0 and end at share 1");
    quantiles.forEach(([share, value], i) => {
      const [shareBefore, valueBefore] = quantiles[i - 1] ?? [-1, 0];
      if (share > shareBefore && value >= valueBefore && value > 0 && value < Number.POSITIVE_INFINITY) return;
      throw new SluiceError(
        "WORKLOAD_INVALID",
        `quantile ${i + 1} is ${value} at share ${share}: shares must ascend, values be above 0 and not descend`,
      );
    });
    this.#quantiles = quantiles;
  }

  /** The value that a share of all values does not exceed. @param share 0..1; draw it uniformly for a random value */
  at(share: number): number {
    const quantiles = this.#quantiles;
    let i = 1;
    while (i < quantiles.length - 1 && share >= quantiles[i]![0]) i++;
    const [lowShare, low] = quantiles[i - 1]!;
    const [highShare, high] = quantiles[i]!;
    return low * (high / low) ** ((share - lowShare) / (highShare - lowShare));
  }
}

/**
 * A separate generator for each number, so its draws do not depend on the time of the draw. With one `base`, different numbers
 * below 2^32 have generators with different starts.
 * @param base 32 bits derived from the run's seed
 * @param number 0 .. 2^32 - 1
 */
export function numberedRandom(base: number, number: number): SeededRandom {
  // Every step is invertible, so two numbers never get the same state (the finalizer of MurmurHash3).
  let state = (base + Math.imul(number, 0x9e3779b1)) >>> 0;
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return new SeededRandom(state ^ (state >>> 16));
}
