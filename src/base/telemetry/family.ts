import { SluiceError } from "../inference/errors.ts";
import { DEFAULT_MAX_SERIES, type MetricSpec, type MetricType, OTHER, type TwinSpec } from "./metric-spec.ts";

/** First number of slots; doubled whenever they run out. */
const FIRST_SLOTS = 8;

/**
 * The numbers of one metric family: one growing `Float64Array` cut into slots of `stride` cells. Slot 0 belongs to no series.
 * Children of removed series point to it, so a caller that still holds one changes nothing visible.
 */
export class Cells {
  /** Replaced when it grows: read the property again for every access. */
  values: Float64Array;
  readonly stride: number;
  readonly #free: number[] = [];
  #next: number;

  /** @param stride cells per series, at least 1 */
  constructor(stride: number) {
    this.stride = stride;
    this.values = new Float64Array(FIRST_SLOTS * stride);
    this.#next = stride;
  }

  /** A zeroed slot; returns the index of its first cell. */
  take(): number {
    const reused = this.#free.pop();
    if (reused !== undefined) {
      this.values.fill(0, reused, reused + this.stride);
      return reused;
    }
    if (this.#next === this.values.length) {
      const grown = new Float64Array(this.values.length * 2);
      grown.set(this.values);
      this.values = grown;
    }
    const at = this.#next;
    this.#next += this.stride;
    return at;
  }

  /** Gives a slot back for reuse. */
  release(at: number): void {
    this.#free.push(at);
  }
}

type Level<C> = Map<string, Level<C> | C>;

/**
 * Finds a series by its label values: one map per label, nested. Unlike a single map with a joined string as key, it builds no
 * key on lookup, and no choice of separator can make two label sets collide.
 */
class SeriesIndex<C> {
  readonly #depth: number;
  readonly #root: Level<C> = new Map();

  /** @param depth number of labels, at least 1 */
  constructor(depth: number) {
    this.#depth = depth;
  }

  get(values: readonly string[]): C | undefined {
    let level: Level<C> | undefined = this.#root;
    const last = this.#depth - 1;
    for (let i = 0; i < last; i++) {
      level = level.get(values[i]!) as Level<C> | undefined;
      if (level === undefined) return undefined;
    }
    return level.get(values[last]!) as C | undefined;
  }

  put(values: readonly string[], series: C): void {
    let level = this.#root;
    const last = this.#depth - 1;
    for (let i = 0; i < last; i++) {
      let next = level.get(values[i]!) as Level<C> | undefined;
      if (next === undefined) {
        next = new Map();
        level.set(values[i]!, next);
      }
      level = next;
    }
    level.set(values[last]!, series);
  }

  /** Forgets one label set, and every level that this leaves empty. */
  delete(values: readonly string[]): void {
    this.#deleteBelow(this.#root, values, 0);
  }

  clear(): void {
    this.#root.clear();
  }

  #deleteBelow(level: Level<C>, values: readonly string[], at: number): void {
    const value = values[at]!;
    if (at < this.#depth - 1) {
      const next = level.get(value) as Level<C> | undefined;
      if (next === undefined) return;
      this.#deleteBelow(next, values, at + 1);
      if (next.size > 0) return;
    }
    level.delete(value);
  }
}

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

  /** For the family: the series is gone. Later observations through this child have no effect. */
  detach(): void {
    if (this.at !== 0) this.cells.release(this.at);
    this.at = 0;
  }
}

/** A metric family: a name, a help text, and at most `maxSeries` + 1 series, which differ in their label values. */
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
   * @param create makes a series; a parameter because the series of a family without labels exists from the start
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
   * The series of these label values, created when new. Once the family is full, every further label set gets the series whose
   * values are all `other`. Throws SluiceError METRIC_SPEC when the number of values is wrong.
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
