import { type FamiliesOf, registerTable } from "./metric-table.ts";
import { POOL_METRICS } from "./pool-metrics.ts";
import { WIRE_METRICS } from "./process-metrics.ts";
import type { MetricsRegistry } from "./registry.ts";
import { REQUEST_METRICS } from "./request-metrics.ts";
import { SCHEDULER_METRICS } from "./scheduler-metrics.ts";

/**
 * Every metric of the inference path: canonical name, help, labels, buckets and deprecated names. No other file spells
 * one of them. The process's own are in `PROCESS_METRICS`, registered by `process.ts`.
 */
const METRICS = { ...REQUEST_METRICS, ...POOL_METRICS, ...SCHEDULER_METRICS, ...WIRE_METRICS } as const;

/** One family per metric of the inference path. */
export type Metrics = FamiliesOf<typeof METRICS>;

/** Registers every metric of the inference path; once per registry (SluiceError METRIC_DUPLICATE otherwise). */
export function createMetrics(registry: MetricsRegistry): Metrics {
  return registerTable(registry, METRICS);
}
