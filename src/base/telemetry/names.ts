import { FLOW_CONTROL_METRICS } from "./flow-control-metrics.ts";
import { KUBERNETES_METRICS, POOL_METRICS } from "./pool-metrics.ts";
import { CONFIG_METRICS, WIRE_METRICS } from "./process-metrics.ts";
import { type FamiliesOf, type MetricRow, type MetricsRegistry, registerTable } from "./registry.ts";
import { REQUEST_METRICS } from "./request-metrics.ts";
import { SCHEDULER_METRICS } from "./scheduler-metrics.ts";

/**
 * Every metric of the inference path: canonical name, help, labels, buckets and deprecated names. No other file spells one of
 * them. `PROCESS_METRICS` holds those of the process itself, which `process.ts` registers.
 */
const METRICS = {
  ...REQUEST_METRICS,
  ...POOL_METRICS,
  ...FLOW_CONTROL_METRICS,
  ...SCHEDULER_METRICS,
  ...WIRE_METRICS,
  ...CONFIG_METRICS,
  ...KUBERNETES_METRICS,
} as const;

/** One family per metric of the inference path. */
export type Metrics = FamiliesOf<typeof METRICS>;

/** The oldest names of request metrics, which the reference no longer shows (scheduling 8.1). */
const OLDEST = "inference_model_";

/**
 * Registers every metric of the inference path; once per registry (SluiceError METRIC_SPEC otherwise).
 * @param oldestNames whether request metrics have a copy under the names of v0.3 to v1.0, for dashboards of that time
 */
export function createMetrics(registry: MetricsRegistry, oldestNames = true): Metrics {
  if (oldestNames) return registerTable(registry, METRICS);
  const rows = Object.entries(METRICS).map(([key, row]) => [key, withoutOldest(row)]);
  return registerTable(registry, Object.fromEntries(rows) as typeof METRICS);
}

function withoutOldest(row: MetricRow): MetricRow {
  const { twins = [] } = row;
  return { ...row, twins: twins.filter(({ name }) => !name.startsWith(OLDEST)) };
}
