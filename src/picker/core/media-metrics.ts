import type { Metrics } from "../../base/telemetry/names.ts";
import { MediaCaches } from "../scheduling/plugins/media/mm-embeddings-cache.ts";

/**
 * Counts the look-ups of images, sounds and videos since the last rendering of the page (scheduling 8.5).
 * @param instances the plugins in force
 */
export function countMedia(
  { encoderCacheQueriesTotal, encoderCacheHitsTotal, encoderCacheHitRatio }: Metrics,
  instances: Iterable<{ readonly name: string; readonly type: string; readonly instance: unknown }>,
): void {
  for (const { name, type, instance } of instances) {
    if (!(instance instanceof MediaCaches)) continue;
    const { queries, hits, ratios } = instance.takeLookups();
    for (const [kind, count] of queries) encoderCacheQueriesTotal.with(name, type, kind).inc(count);
    for (const [key, count] of hits) {
      const [kind = "", pod = ""] = key.split("\n");
      encoderCacheHitsTotal.with(name, type, pod, kind).inc(count);
    }
    for (const [ratio, count] of ratios) encoderCacheHitRatio.with(name, type).observe(ratio, count);
  }
}
