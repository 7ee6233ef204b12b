import { Child, Family, type LabelValues } from "./family.ts";
import type { MetricSpec } from "./metric-spec.ts";

/** One series of a gauge. */
export class Gauge extends Child {
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
