import { type Cells, Child, Family, type LabelValues } from "./family.ts";
import type { HistogramSpec, MetricSpec } from "./metric-spec.ts";

/** One series of a counter. */
export class Counter extends Child {
  /** Adds `n`. A counter never falls and stays finite, so any value but a finite number above 0 is ignored. */
  inc(n = 1): void {
    if (n > 0 && n < Number.POSITIVE_INFINITY) this.cells.values[this.at]! += n;
  }

  get value(): number {
    return this.cells.values[this.at]!;
  }
}

/** A family of values that only grow. */
export class CounterFamily<L extends readonly string[] = readonly string[]> extends Family<L, Counter> {
  readonly type = "counter";

  constructor(spec: MetricSpec<L>) {
    super(spec, 1, (cells, labelValues) => new Counter(cells, labelValues));
  }
}

/** One series of a gauge. */
class Gauge extends Child {
  set(value: number): void {
    this.cells.values[this.at] = value;
  }

  inc(n = 1): void {
    this.cells.values[this.at]! += n;
  }

  dec(n = 1): void {
    this.cells.values[this.at]! -= n;
  }

  get value(): number {
    return this.cells.values[this.at]!;
  }
}

/** A family of values that rise and fall. */
export class GaugeFamily<L extends readonly string[] = readonly string[]> extends Family<L, Gauge> {
  readonly type = "gauge";

  constructor(spec: MetricSpec<L>) {
    super(spec, 1, (cells, labelValues) => new Gauge(cells, labelValues));
  }

  /** Takes one series off the page, for example because its endpoint is gone; without effect when there is none. */
  remove(...values: LabelValues<L>): void {
    this.removeSeries(values);
  }

  /** Takes every series off the page. The one series of a family without labels stays. */
  clear(): void {
    this.clearSeries();
  }
}

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

  /** Counts `value`, `times` times, into the first bucket whose bound is not below it. NaN and infinities are ignored: they would spoil the sum for good. */
  observe(value: number, times = 1): void {
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
    values[this.at + low]! += times;
    values[this.at + bounds.length + 1]! += value * times;
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

  /** Takes one series off the page, for example because its flow is gone; without effect when there is none. */
  remove(...values: LabelValues<L>): void {
    this.removeSeries(values);
  }
}
