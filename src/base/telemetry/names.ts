import { FLOW_CONTROL_METRICS } from "./flow-control-metrics.ts";
import { LIMIT_METRICS } from "./limit-metrics.ts";
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
  ...LIMIT_METRICS,
  ...CONFIG_METRICS,
  ...KUBERNETES_METRICS,
} as const;

/** One family per metric of the inference path. */
export type Metrics = FamiliesOf<typeof METRICS>;

/** The oldest names of request metrics, which the reference no longer shows (scheduling 8.1). */
const OLDEST = "inference_model_";

/** What the page shows under deprecated names. */
export interface TwinOptions {
  /** Request metrics have a copy under the names of v0.3 to v1.0, for dashboards of that time; default true. */
  readonly oldestNames?: boolean | undefined;
  /** The saturation of the pool has the label `stage` under its name of v1.5, too; default true. v1.5 itself has no stages. */
  readonly stageInTwins?: boolean | undefined;
}

/** Registers every metric of the inference path; once per registry (SluiceError METRIC_SPEC otherwise). */
export function createMetrics(registry: MetricsRegistry, options: TwinOptions = {}): Metrics {
  const { oldestNames = true, stageInTwins = true } = options;
  const rows = Object.entries(METRICS).map(([key, row]: [string, MetricRow]) => {
    const kept = oldestNames ? row : withoutOldest(row);
    return [key, stageInTwins || key !== "poolSaturation" ? kept : withoutStage(kept)];
  });
  return registerTable(registry, Object.fromEntries(rows) as typeof METRICS);
}

function withoutStage(row: MetricRow): MetricRow {
  const { twins = [], labels = [] } = row;
  const stageless = labels.filter((label) => label !== "stage");
  return { ...row, twins: twins.map((twin) => ({ ...twin, labels: stageless })) };
}

function withoutOldest(row: MetricRow): MetricRow {
  const { twins = [] } = row;
  return { ...row, twins: twins.filter(({ name }) => !name.startsWith(OLDEST)) };
}
