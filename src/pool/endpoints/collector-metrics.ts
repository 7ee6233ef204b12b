import type { Metrics } from "../../base/telemetry/names.ts";
import type { CollectorMetrics } from "./collector.ts";

/** Type names of the published plugins that do the same work: label values of both counters (scheduling 8.5, S-8). */
const SOURCE = "metrics-data-source";
const EXTRACTOR = "core-metrics-extractor";

/** The collector's failures in the families of the published names. */
export function collectorMetrics(
  metrics: Pick<Metrics, "datalayerPollErrorsTotal" | "datalayerExtractErrorsTotal">,
): CollectorMetrics {
  const poll = metrics.datalayerPollErrorsTotal.with(SOURCE);
  const extract = metrics.datalayerExtractErrorsTotal.with(SOURCE, EXTRACTOR);
  return { pollFailed: () => poll.inc(), extractFailed: () => extract.inc() };
}
