import { z } from "zod";
import { duration } from "../../base/plugin/duration.ts";

/** Parameters that say from where on the metrics of an endpoint mean that it is busy (scheduling 5.2, 5.3). */
export const thresholds = {
  queueDepthThreshold: z
    .number("queueDepthThreshold must be a number")
    .positive("queueDepthThreshold must be greater than 0")
    .default(5)
    .describe("Waiting requests at which an endpoint is saturated."),
  kvCacheUtilThreshold: z
    .number("kvCacheUtilThreshold must be a number")
    .positive("kvCacheUtilThreshold must be greater than 0 and at most 1")
    .max(1, "kvCacheUtilThreshold must be greater than 0 and at most 1")
    .default(0.8)
    .describe("KV-cache utilisation at which an endpoint is saturated, above 0 and at most 1."),
  metricsStalenessThreshold: duration({ moreThan: 0 })
    .prefault("200ms")
    .describe("Age from which metrics are stale, unless the endpoint is scraped more rarely."),
};
