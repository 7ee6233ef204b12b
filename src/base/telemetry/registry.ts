import { SluiceError } from "../inference/errors.ts";
import {
  checkBuckets,
  checkMetricSpec,
  type HistogramSpec,
  type MetricSpec,
  type MetricType,
  sampleNames,
} from "./metric-spec.ts";
import { CounterFamily, GaugeFamily, HistogramFamily } from "./metric-types.ts";

export type AnyFamily = CounterFamily | GaugeFamily | HistogramFamily;

/**
 * All metric families of a process. The numbers are in typed arrays. Callers keep the child that `family.with(...)` returns, so
 * an observation is one or two array writes. Twins are computed when the page is rendered, so they cost an observation nothing.
 * Uses no Node API.
 */
export class MetricsRegistry {
  readonly #families: AnyFamily[] = [];
  readonly #names = new Set<string>();
  readonly #callbacks = new Set<() => void>();
  readonly #onRenderError: (error: unknown) => void;

  /** @param options.onRenderError gets the error when an `onRender` callback throws; the page is still rendered */
  constructor(options: { readonly onRenderError?: (error: unknown) => void } = {}) {
    this.#onRenderError = options.onRenderError ?? (() => {});
  }

  /** Registers a counter. Throws SluiceError METRIC_SPEC (illegal description, or the name is in use). */
  counter<const L extends readonly string[] = readonly []>(spec: MetricSpec<L>): CounterFamily<L> {
    this.#claim(spec, "counter");
    const family = new CounterFamily<L>(spec);
    this.#families.push(family);
    return family;
  }

  /** Registers a gauge. Errors as for `counter`. */
  gauge<const L extends readonly string[] = readonly []>(spec: MetricSpec<L>): GaugeFamily<L> {
    this.#claim(spec, "gauge");
    const family = new GaugeFamily<L>(spec);
    this.#families.push(family);
    return family;
  }

  /** Registers a histogram. Errors as for `counter`. */
  histogram<const L extends readonly string[] = readonly []>(spec: HistogramSpec<L>): HistogramFamily<L> {
    checkBuckets(spec.name, spec.buckets);
    this.#claim(spec, "histogram");
    const family = new HistogramFamily<L>(spec);
    this.#families.push(family);
    return family;
  }

  /** Calls `callback` before every rendering, to refresh gauges. Returns a function that removes the callback. */
  onRender(callback: () => void): () => void {
    this.#callbacks.add(callback);
    return () => this.#callbacks.delete(callback);
  }

  /** For the writer: runs the `onRender` callbacks and returns the families in the order of their registration. */
  refresh(): readonly AnyFamily[] {
    for (const callback of this.#callbacks) {
      try {
        callback();
      } catch (error) {
        this.#onRenderError(error);
      }
    }
    return this.#families;
  }

  /** Takes every sample name of the family and its twins, or none of them. */
  #claim(spec: MetricSpec, type: MetricType): void {
    checkMetricSpec(spec, type);
    const claimed = new Set<string>();
    for (const name of [spec.name, ...(spec.twins ?? []).map((twin) => twin.name)]) {
      for (const sample of sampleNames(name, type)) {
        if (this.#names.has(sample) || claimed.has(sample)) {
          throw new SluiceError("METRIC_SPEC", `metric "${name}": the name "${sample}" is already registered`);
        }
        claimed.add(sample);
      }
    }
    for (const name of claimed) this.#names.add(name);
  }
}

/** A row of the table of all metrics. */
export type MetricRow =
  | (MetricSpec & { readonly type: "counter" })
  | (MetricSpec & { readonly type: "gauge" })
  | (HistogramSpec & { readonly type: "histogram" });

export type MetricTable = Readonly<Record<string, MetricRow>>;

type LabelsOf<R> = R extends { readonly labels: infer L extends readonly string[] } ? L : readonly [];

type FamilyOf<R extends MetricRow> = R["type"] extends "counter"
  ? CounterFamily<LabelsOf<R>>
  : R["type"] extends "gauge"
    ? GaugeFamily<LabelsOf<R>>
    : HistogramFamily<LabelsOf<R>>;

/** The families of a table, under the table's keys. */
export type FamiliesOf<T extends MetricTable> = { readonly [K in keyof T]: FamilyOf<T[K]> };

/** Registers every row of `table`. Errors as for `MetricsRegistry.counter`. */
export function registerTable<const T extends MetricTable>(registry: MetricsRegistry, table: T): FamiliesOf<T> {
  const families: Record<string, unknown> = {};
  for (const [key, row] of Object.entries(table)) families[key] = register(registry, row);
  // The loop gives every key the family of its row's type, which is what FamiliesOf says.
  return families as FamiliesOf<T>;
}

function register(registry: MetricsRegistry, row: MetricRow): unknown {
  switch (row.type) {
    case "counter":
      return registry.counter(row);
    case "gauge":
      return registry.gauge(row);
    case "histogram":
      return registry.histogram(row);
  }
}
