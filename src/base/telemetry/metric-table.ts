import type { CounterFamily } from "./counter.ts";
import type { GaugeFamily } from "./gauge.ts";
import type { HistogramFamily } from "./histogram.ts";
import type { HistogramSpec, MetricSpec } from "./metric-spec.ts";
import type { MetricsRegistry } from "./registry.ts";

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
