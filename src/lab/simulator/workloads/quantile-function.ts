import { SluiceError } from "../../../base/inference/errors.ts";

/** A share of all values, and the value that so many are at most. */
export type Quantile = readonly [share: number, value: number];

/**
 * A distribution as its quantiles say: between two of them the logarithm of the value grows evenly, which suits lengths and
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

  /** The value that a share of all are at most. @param share 0..1; draw it uniformly for a value by chance */
  at(share: number): number {
    const quantiles = this.#quantiles;
    let i = 1;
    while (i < quantiles.length - 1 && share >= quantiles[i]![0]) i++;
    const [lowShare, low] = quantiles[i - 1]!;
    const [highShare, high] = quantiles[i]!;
    return low * (high / low) ** ((share - lowShare) / (highShare - lowShare));
  }
}
