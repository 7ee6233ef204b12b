import { z } from "zod";
import { type Endpoint, isFresh } from "../inference/endpoint.ts";
import { defineFilter, defineSaturationDetector } from "../plugin/define.ts";
import { duration } from "../plugin/duration.ts";
import type { Filter, SaturationDetector } from "../plugin/kinds.ts";
import { headroom, headroomNotes } from "./headroom.ts";

const parameters = z.strictObject({
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
  headroom,
});

const TYPE = "utilization-detector";

/** The role in a profile: fails open (scheduling 3.15). */
const utilizationFilter = defineFilter({
  type: TYPE,
  describe: "Keeps endpoints whose queue and KV-cache use are under their thresholds and headroom; with none left all.",
  parameters,
  create: filterOf,
});

/** scheduling 5.3 */
export const utilizationDetector = defineSaturationDetector({
  type: TYPE,
  describe:
    "Saturation from scraped metrics: the mean over endpoints of queue or KV-cache use, whichever is worse. In a profile it is a filter: it keeps endpoints under both thresholds, and with none left all.",
  parameters,
  inProfile: utilizationFilter,
  notes: (settings) => headroomNotes(settings.headroom),
  create: (settings) => new UtilizationDetector(settings),
});

/** See `utilizationDetector`. */
class UtilizationDetector implements SaturationDetector {
  /** Endpoints whose metrics were missing or stale at the last evaluation. */
  staleEndpoints = 0;
  readonly #queueDepth: number;
  readonly #kvUsage: number;
  readonly #staleness: number;

  constructor(settings: z.output<typeof parameters>) {
    this.#queueDepth = settings.queueDepthThreshold;
    this.#kvUsage = settings.kvCacheUtilThreshold;
    this.#staleness = settings.metricsStalenessThreshold;
  }

  /**
   * @param now monotonic milliseconds
   * @returns 0 = idle, 1 and above = saturated; 1 for an empty set. An endpoint without believable metrics counts 1; of
   *   one that reports only queue or only KV use, that one decides.
   */
  saturation(endpoints: readonly Endpoint[], now: number): number {
    this.staleEndpoints = 0;
    if (endpoints.length === 0) return 1;
    let sum = 0;
    for (const endpoint of endpoints) {
      const queue = endpoint.metrics.waiting / this.#queueDepth;
      const kv = endpoint.metrics.kvUsage / this.#kvUsage;
      const load = kv > queue || Number.isNaN(queue) ? kv : queue;
      if (Number.isNaN(load) || !isFresh(endpoint, now, this.#staleness)) {
        this.staleEndpoints++;
        sum++;
      } else sum += load;
    }
    return sum / endpoints.length;
  }
}

/** An endpoint that reports only queue or only KV use is judged by that one; one without believable metrics is dropped. */
function filterOf(settings: z.output<typeof parameters>): Filter {
  const queueLimit = settings.queueDepthThreshold * (1 + settings.headroom);
  const kvLimit = settings.kvCacheUtilThreshold * (1 + settings.headroom);
  const staleness = settings.metricsStalenessThreshold;
  return {
    filter({ candidates: { endpoints, count, now }, keep }) {
      let kept = 0;
      for (let i = 0; i < count; i++) {
        const endpoint = endpoints[i]!;
        const { waiting, kvUsage } = endpoint.metrics;
        const blind = Number.isNaN(waiting) && Number.isNaN(kvUsage);
        if (blind || waiting >= queueLimit || kvUsage >= kvLimit || !isFresh(endpoint, now, staleness)) keep[i] = 0;
        else kept++;
      }
      if (kept === 0) keep.fill(1, 0, count);
    },
  };
}
