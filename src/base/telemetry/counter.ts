import { Child, Family } from "./family.ts";
import type { MetricSpec } from "./metric-spec.ts";

/** One series of a counter. */
export class Counter extends Child {
  /** Adds `n`; a counter never falls and never ends, so anything but a finite number above 0 is ignored. */
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
