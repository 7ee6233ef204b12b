import type { PrometheusClient } from "./metric-sources/prometheus-client.ts";
import { type PoolSelection, queuedPodsQuery, readyPodsQuery } from "./promql.ts";

/**
 * How many model servers of a pool are ready: the largest of the published series, since each EPP replica publishes one; else
 * how many have a queue in the metrics (async-processor 2.7).
 * @returns undefined when neither is known
 */
export async function readyPods(
  client: PrometheusClient,
  selection: PoolSelection,
  signal: AbortSignal,
): Promise<number | undefined> {
  const ready = await largest(client, readyPodsQuery(selection), signal);
  return ready ?? (await largest(client, queuedPodsQuery(selection), signal));
}

async function largest(client: PrometheusClient, query: string, signal: AbortSignal): Promise<number | undefined> {
  try {
    const { samples } = await client.query(query, signal);
    const values = samples.map(({ value }) => value).filter((value) => Number.isFinite(value) && value >= 0);
    return values.length === 0 ? undefined : values.reduce((a, b) => Math.max(a, b));
  } catch {
    // The budget itself may be known all the same.
    return undefined;
  }
}
