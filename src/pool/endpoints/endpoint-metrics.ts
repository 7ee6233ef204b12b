import type { Clock } from "../../base/clock/clock.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { EndpointRegistry } from "./registry.ts";
import type { EndpointsView } from "./view.ts";

const STATES = ["up", "blind", "down"] as const;
/** Requests in flight are counted once, for any number of producers that read them. */
const PRODUCER = "inflight-load-producer";

export interface EndpointMetricsOptions {
  readonly registry: MetricsRegistry;
  readonly metrics: Metrics;
  readonly endpoints: EndpointRegistry;
  readonly view: EndpointsView;
  readonly poolName: string;
  readonly clock: Clock;
  /** Milliseconds between two flushes of the pool's averages (`--refresh-prometheus-metrics-interval`); 0 = on every page. */
  readonly poolInterval: number;
}

/**
 * Writes the gauges about endpoints. The averages of the pool are written at an interval, if there is one. Gauges of one
 * endpoint are written whenever the page is rendered. Source: scheduling 8.4, 8.5.
 * @returns a function that stops it
 */
export function startEndpointMetrics(options: EndpointMetricsOptions): () => void {
  const { registry, metrics, endpoints, view, poolName, clock, poolInterval } = options;
  let timer = poolInterval > 0 ? clock.after(0, flush, true) : undefined;
  let shownReady = 0;
  const unregister = registry.onRender(() => {
    // The number of serving endpoints does not wait for the interval, or it would be 0 for the whole first interval.
    if (poolInterval === 0 || view.aggregates().ready !== shownReady) write();
    perEndpoint(metrics, endpoints, poolName);
    perFlow(metrics, endpoints);
  });
  const forget = endpoints.onRemoved((endpoint) => {
    metrics.poolPerEndpointQueueSize.remove(poolName, endpoint.name);
    for (const state of STATES) metrics.endpointState.remove(endpoint.id, state);
  });

  function write(): void {
    const pool = view.aggregates();
    shownReady = pool.ready;
    metrics.poolReadyEndpoints.with(poolName).set(pool.ready);
    // With no endpoint to average the old averages stay, as in the reference.
    if (pool.ready > 0) {
      metrics.poolAverageKvCacheUtilization.with(poolName).set(pool.meanKvUsage);
      metrics.poolAverageQueueSize.with(poolName).set(pool.meanWaiting);
      metrics.poolAverageRunningRequests.with(poolName).set(pool.meanRunning);
      metrics.poolStdDevKvCacheUtilization.with(poolName).set(pool.stdDevKvUsage);
      metrics.poolStdDevQueueSize.with(poolName).set(pool.stdDevWaiting);
      metrics.poolStdDevRunningRequests.with(poolName).set(pool.stdDevRunning);
    }
  }

  function flush(): void {
    write();
    timer = clock.after(poolInterval, flush, true);
  }

  return () => {
    timer?.cancel();
    unregister();
    forget();
  };
}

function perEndpoint(metrics: Metrics, endpoints: EndpointRegistry, poolName: string): void {
  for (const endpoint of endpoints.list()) {
    const { waiting } = endpoint.metrics;
    if (!Number.isNaN(waiting)) metrics.poolPerEndpointQueueSize.with(poolName, endpoint.name).set(waiting);
    for (const state of STATES) metrics.endpointState.with(endpoint.id, state).set(endpoint.state === state ? 1 : 0);
  }
}

/** Rewritten every time, because the set of flows changes all the time. */
function perFlow(metrics: Metrics, { inFlight }: EndpointRegistry): void {
  metrics.inflightRequests.clear();
  metrics.inflightTokens.clear();
  for (const { endpoint, flow, requests, tokens } of inFlight.flows) {
    const labels = [endpoint.name, endpoint.namespace, PRODUCER, flow.fairnessId, flow.priority] as const;
    metrics.inflightRequests.with(...labels).set(requests);
    metrics.inflightTokens.with(...labels).set(tokens);
  }
}
