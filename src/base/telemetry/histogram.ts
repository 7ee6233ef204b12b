import type { Cells } from "./cells.ts";
import { Child, Family } from "./family.ts";
import type { HistogramSpec } from "./metric-spec.ts";

/**
 * One series of a histogram. Its cells: observations of each bucket (not yet cumulated), those above the last bound, and
 * the sum of all values.
 */
export class Histogram extends Child {
  readonly #bounds: Float64Array;

  constructor(cells: Cells, labelValues: readonly string[], bounds: Float64Array) {
    super(cells, labelValues);
    this.#bounds = bounds;
  }

  /** Counts `value` into the first bucket whose bound is not below it. NaN and infinities are ignored: they would spoil the sum for good. */
  observe(value: number): void {
    if (!Number.isFinite(value)) return;
    const bounds = this.#bounds;
    let low = 0;
    let high = bounds.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (bounds[middle]! < value) low = middle + 1;
      else high = middle;
    }
    const values = this.cells.values;
    values[this.at + low]! += 1;
    values[this.at + bounds.length + 1]! += value;
  }

  /** Number of observations. */
  get count(): number {
    let count = 0;
    for (let i = 0; i <= this.#bounds.length; i++) count += this.cells.values[this.at + i]!;
    return count;
  }

  /** Sum of all observed values. */
  get sum(): number {
    return this.cells.values[this.at + this.#bounds.length + 1]!;
  }
}

/** A family of distributions over fixed buckets. */
export class HistogramFamily<L extends readonly string[] = readonly string[]> extends Family<L, Histogram> {
  readonly type = "histogram";
  /** Upper bounds without +Inf, ascending. */
  readonly bounds: Float64Array;

  constructor(spec: HistogramSpec<L>) {
    const bounds = Float64Array.from(spec.buckets);
    super(spec, bounds.length + 2, (cells, labelValues) => new Histogram(cells, labelValues, bounds));
    this.bounds = bounds;
  }
}
