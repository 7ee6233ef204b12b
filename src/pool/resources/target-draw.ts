import type { Random } from "../../base/clock/random.ts";
import type { WeightedTarget } from "./objects.ts";

/** The largest weight that counts; a larger one counts as this. */
const MAX_WEIGHT = 1_000_000;

/**
 * A list of weighted targets for draws. Each draw is independent of the others. Without any weight all targets are equally
 * likely. Otherwise target i is drawn with probability weight i / sum, and one without a weight is never drawn. Source:
 * api-resources 1.8, 2.4.
 */
export class TargetDraw {
  readonly #names: readonly string[];
  /** Sums of the weights up to and including each target. */
  readonly #bounds: Float64Array;

  /** @param zeroSum the meaning of weights with the sum 0: every target is equally likely, or none can be drawn */
  constructor(targets: readonly WeightedTarget[], zeroSum: "uniform" | "none") {
    const given = targets.some(({ weight }) => weight !== undefined);
    const sum = targets.reduce((total, { weight }) => total + usable(weight), 0);
    const uniform = !given || (sum === 0 && zeroSum === "uniform");
    this.#names = targets.map(({ name }) => name);
    this.#bounds = new Float64Array(targets.length);
    let bound = 0;
    for (const [i, { weight }] of targets.entries()) {
      bound += uniform ? 1 : usable(weight);
      this.#bounds[i] = bound;
    }
  }

  /** The name drawn, or undefined when none can be. */
  draw(random: Random): string | undefined {
    const bounds = this.#bounds;
    const total = bounds.length === 0 ? 0 : bounds[bounds.length - 1]!;
    if (total === 0) return undefined;
    const point = random.below(total);
    let at = 0;
    while (bounds[at]! <= point) at++;
    return this.#names[at];
  }
}

/**
 * Whether some targets have a weight and some have none. Admission refuses that for InferenceModels; elsewhere it is probably a
 * mistake.
 */
export function isMixed(targets: readonly WeightedTarget[]): boolean {
  return targets.some(({ weight }) => weight === undefined) && targets.some(({ weight }) => weight !== undefined);
}

/** A weight that is missing, no whole number or negative counts as 0. */
function usable(weight: number | undefined): number {
  return Number.isInteger(weight) && weight! > 0 ? Math.min(weight!, MAX_WEIGHT) : 0;
}
