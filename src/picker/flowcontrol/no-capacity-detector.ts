import { z } from "zod";
import { type Endpoint, isFresh } from "../../base/inference/endpoint.ts";
import { defineSaturationDetector } from "../../base/plugin/define.ts";
import { thresholds } from "./thresholds.ts";

/** Not a published type: the detector of v1.0 to v1.4, which had no name (scheduling 5.2). */
export const noCapacityDetector = defineSaturationDetector({
  type: "no-capacity-detector",
  describe:
    "Saturated or not, as releases v1.0 to v1.4 saw it: one endpoint with fresh metrics, queue and KV-cache use not above their thresholds, is capacity enough.",
  parameters: z.strictObject(thresholds),
  create: ({ queueDepthThreshold, kvCacheUtilThreshold, metricsStalenessThreshold }) => ({
    saturation(endpoints: readonly Endpoint[], now: number): number {
      for (const endpoint of endpoints) {
        const { waiting, kvUsage } = endpoint.metrics;
        const blind = Number.isNaN(waiting) && Number.isNaN(kvUsage);
        const busy = waiting > queueDepthThreshold || kvUsage > kvCacheUtilThreshold;
        if (!blind && !busy && isFresh(endpoint, now, metricsStalenessThreshold)) return 0;
      }
      return 1;
    },
  }),
});
