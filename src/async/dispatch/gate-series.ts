import type { CapacityReading, GateFigures, GateOwner } from "../../base/plugin/gate.ts";
import type { DispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";

/**
 * What the metric gates of one owner say of themselves (async-processor 8.6). A reading that cannot be believed is told by
 * `gate_metric_source_available` 0 and leaves the other two as they were.
 */
export class GateSeries implements GateFigures {
  readonly #metrics: DispatchMetrics;
  readonly #owner: GateOwner;

  constructor(metrics: DispatchMetrics, owner: GateOwner) {
    this.#metrics = metrics;
    this.#owner = owner;
  }

  reading(pool: string, { readable, value, threshold }: CapacityReading): void {
    const { poolName, queueId, queueName } = this.#owner;
    this.#metrics.gateMetricSourceAvailable.with(pool, poolName, queueId, queueName).set(readable ? 1 : 0);
    if (!readable) return;
    this.#metrics.gateMetricValue.with(pool, poolName, queueId, queueName).set(value);
    this.#metrics.gateMetricThreshold.with(pool, poolName, queueId, queueName).set(threshold);
  }
}
