import { z } from "zod";
import { messageOf } from "../../base/inference/errors.ts";
import { defineDataSource, defineExtractor } from "../../base/plugin/define.ts";
import { parseSpecification } from "./dialects/specification.ts";
import { checkPair, insecure, interval, notesOf, path, port, scheme, TLS_FILES } from "./page-parameters.ts";

/**
 * scheduling 1.8. Over https with checked certificates by default: the way to another cluster leads through other people's
 * networks.
 */
export const multiclusterMetricsDataSource = defineDataSource({
  type: "multicluster-metrics-data-source",
  describe: "Fetches the metrics pages of other clusters' pickers. Sluice reads its PEM files once, at the start.",
  payload: "cluster-metrics",
  parameters: z
    .strictObject({
      scheme: scheme("https").describe("Scheme of the metrics pages: http or https."),
      path: path("/metrics").describe("Path of the metrics pages."),
      port: port().optional().describe("Port of the metrics pages; absent = that of the endpoint's metrics host."),
      insecureSkipVerify: insecure(false).describe("Read pages over https without checking the servers' certificates."),
      ...TLS_FILES,
      interval: interval(),
    })
    .superRefine(checkPair),
  notes: (settings) => notesOf(settings, false),
  create: ({ interval, port, ...settings }) => ({ ...settings, port, interval: interval || undefined }),
});

/** The attributes of a cluster (scheduling 1.8); any producer may write them, so they name none. */
const KV_CACHE = "llm-d.ai/multicluster-kv-cache-utilization/";
const QUEUE_SIZE = "llm-d.ai/multicluster-queue-size/";

const ENGINE = "cluster";

/** scheduling 1.8 */
export const multiclusterMetricsExtractor = defineExtractor({
  type: "multicluster-metrics-extractor",
  describe:
    "Reads the load of another cluster from the means on its picker's metrics page: requests waiting per endpoint, and KV-cache utilisation.",
  payload: "cluster-metrics",
  parameters: z.strictObject({
    kvCacheUtilizationMetric: metric("llm_d_epp_average_kv_cache_utilization").describe(
      "Mean KV-cache utilisation of the pool, 0 to 1.",
    ),
    queueSizeMetric: metric("llm_d_epp_average_queue_size").describe("Mean number of requests waiting per endpoint."),
  }),
  endpointAttributes: () => [KV_CACHE, QUEUE_SIZE],
  create: ({ kvCacheUtilizationMetric, queueSizeMetric }) => ({
    engineLabelKey: "",
    defaultEngine: ENGINE,
    engines: [
      {
        name: ENGINE,
        queuedRequestsSpec: queueSizeMetric,
        runningRequestsSpec: "",
        kvUsageSpec: kvCacheUtilizationMetric,
        loraSpec: "",
        cacheInfoSpec: "",
        cacheBlockSizeLabelName: "",
        cacheNumBlocksLabelName: "",
        cacheBlockSizeSpec: "",
        cacheNumBlocksSpec: "",
        customMetrics: [
          { attributeKey: KV_CACHE, metricSpec: kvCacheUtilizationMetric },
          { attributeKey: QUEUE_SIZE, metricSpec: queueSizeMetric },
        ],
        hasMeans: true,
      },
    ],
  }),
});

/** A metric specification; empty = the usual one. */
function metric(standard: string) {
  return z
    .string("must be a metric specification: NAME or NAME{label=value,...}")
    .default(standard)
    .transform((text) => text.trim() || standard)
    .superRefine((text, context) => {
      try {
        parseSpecification(text);
      } catch (error) {
        context.addIssue({ code: "custom", message: messageOf(error) });
      }
    });
}
