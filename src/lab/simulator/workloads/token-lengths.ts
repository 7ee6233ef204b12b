import type { Random } from "../../../base/clock/random.ts";
import { gaussian } from "../latency.ts";

/** Log-normal lengths in tokens, cut at both ends. */
export interface TokenLengths {
  /** Of the distribution before it is cut, > 0. */
  readonly mean: number;
  /** Standard deviation of the logarithm, >= 0: at 0.7 a tenth are longer than twice the mean. */
  readonly sigma: number;
  /** >= 1. */
  readonly least: number;
  readonly most: number;
}

/** One length. */
export function drawTokens(random: Random, { mean, sigma, least, most }: TokenLengths): number {
  const length = mean * Math.exp(sigma * gaussian(random) - sigma ** 2 / 2);
  return Math.round(Math.min(most, Math.max(least, length)));
}
