import { SluiceError } from "../inference/errors.ts";
import { Cells } from "./cells.ts";
import { DEFAULT_MAX_SERIES, type MetricSpec, type MetricType, OTHER, type TwinSpec } from "./metric-spec.ts";
import { SeriesIndex } from "./series-index.ts";

/** One value for every label of `L`, in order; "" is legal. */
export type LabelValues<L extends readonly string[]> = { readonly [K in keyof L]: string };

/** One series of a family: what `with` returns and callers keep. */
export abstract class Child {
  readonly labelValues: readonly string[];
  protected readonly cells: Cells;
  /** Index of the first cell of this series; 0 once the series was removed. */
  protected at: number;

  constructor(cells: Cells, labelValues: readonly string[]) {
    this.cells = cells;
    this.labelValues = labelValues;
    this.at = cells.take();
  }

  /** For the writer: where the cells of this series start in `family.cells.values`. */
  get offset(): number {
    return this.at;
  }

  /** For the family: the series is gone, later observations through this child go nowhere. */
  detach(): void {
    if (this.at !== 0) this.cells.release(this.at);
    this.at = 0;
  }
}

/** A metric family: a name, a help text, and at most `maxSeries` + 1 series told apart by label values. */
export abstract class Family<L extends readonly string[], C extends Child> {
  abstract readonly type: MetricType;
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly twins: readonly TwinSpec[];
  readonly maxSeries: number;
  /** For the writer. */
  readonly cells: Cells;
  /** The only series of a family without labels. */
  readonly #single: C | undefined;
  readonly #create: (cells: Cells, labelValues: readonly string[]) => C;
  readonly #index: SeriesIndex<C>;
  readonly #series = new Set<C>();

  /**
   * @param stride cells per series
   * @param create makes a series; a parameter because the one of a family without labels exists from the start
   */
  constructor(spec: MetricSpec<L>, stride: number, create: (cells: Cells, labelValues: readonly string[]) => C) {
    this.name = spec.name;
    this.help = spec.help;
    this.labels = spec.labels ?? [];
    this.twins = spec.twins ?? [];
    this.maxSeries = spec.maxSeries ?? DEFAULT_MAX_SERIES;
    this.cells = new Cells(stride);
    this.#create = create;
    this.#index = new SeriesIndex(this.labels.length);
    if (this.labels.length === 0) {
      this.#single = create(this.cells, []);
      this.#series.add(this.#single);
    }
  }

  /**
   * The series of these label values, created when new. Once the family is full every further label set gets the series
   * whose values are all `other`. Throws SluiceError METRIC_SPEC when the number of values is wrong.
   */
  with(...values: LabelValues<L>): C {
    if (values.length !== this.labels.length) {
      throw new SluiceError(
        "METRIC_SPEC",
        `metric "${this.name}" takes ${this.labels.length} label values (${this.labels.join(", ")}), got ${values.length}`,
      );
    }
    return this.#single ?? this.#index.get(values) ?? this.#add(values);
  }

  /** For the writer: every series, oldest first. */
  series(): Iterable<C> {
    return this.#series;
  }

  /** Number of series, at most `maxSeries` + 1. */
  get size(): number {
    return this.#series.size;
  }

  /** Removes one series; without effect when there is none, or no label. */
  protected removeSeries(values: readonly string[]): void {
    const child = this.labels.length === 0 ? undefined : this.#index.get(values);
    if (child === undefined) return;
    this.#index.delete(values);
    this.#series.delete(child);
    child.detach();
  }

  /** Removes every series of a family with labels. */
  protected clearSeries(): void {
    if (this.labels.length === 0) return;
    for (const child of this.#series) child.detach();
    this.#series.clear();
    this.#index.clear();
  }

  #add(values: readonly string[]): C {
    let own: readonly string[] = values;
    if (this.#series.size >= this.maxSeries) {
      own = this.labels.map(() => OTHER);
      const shared = this.#index.get(own);
      if (shared !== undefined) return shared;
    }
    const child = this.#create(this.cells, own);
    this.#index.put(own, child);
    this.#series.add(child);
    return child;
  }
}
