import { z } from "zod";
import { type Endpoint, isFresh } from "../../base/inference/endpoint.ts";
import { defineFilter, defineSaturationDetector } from "../../base/plugin/define.ts";
import type { Filter, PluginContext, SaturationDetector } from "../../base/plugin/kinds.ts";
import { headroom, headroomNotes } from "./headroom.ts";
import { thresholds } from "./thresholds.ts";

const parameters = z.strictObject({ ...thresholds, headroom });

const TYPE = "utilization-detector";
/** Milliseconds between two warnings at least (scheduling 5.3). */
const WARNING_INTERVAL = 30_000;

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
  create: (settings, context) => new UtilizationDetector(settings, context),
});

/** See `utilizationDetector`. */
class UtilizationDetector implements SaturationDetector {
  /** Endpoints whose metrics were missing or stale at the last evaluation. */
  staleEndpoints = 0;
  readonly #queueDepth: number;
  readonly #kvUsage: number;
  readonly #staleness: number;
  readonly #log: PluginContext["log"];
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(settings: z.output<typeof parameters>, { log }: PluginContext) {
    this.#log = log;
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
    let stale = 0;
    let sum = 0;
    for (const endpoint of endpoints) {
      const queue = endpoint.metrics.waiting / this.#queueDepth;
      const kv = endpoint.metrics.kvUsage / this.#kvUsage;
      const load = kv > queue || Number.isNaN(queue) ? kv : queue;
      if (Number.isNaN(load) || !isFresh(endpoint, now, this.#staleness)) {
        stale++;
        sum++;
      } else sum += load;
    }
    this.staleEndpoints = stale;
    if (stale > 0 && now - this.#warnedAt >= WARNING_INTERVAL) this.#warn(endpoints.length, now);
    return sum / endpoints.length;
  }

  /** For `/debug/plugins/state`. */
  debugState(): unknown {
    return { staleEndpoints: this.staleEndpoints };
  }

  #warn(endpoints: number, now: number): void {
    this.#warnedAt = now;
    this.#log.warn(
      { stale: this.staleEndpoints, endpoints },
      "endpoints without fresh metrics count as saturated; /debug/endpoints says why they cannot be read",
    );
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
