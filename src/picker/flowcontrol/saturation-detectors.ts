import { z } from "zod";
import { type Endpoint, isFresh, unseenAt } from "../../base/inference/endpoint.ts";
import { defineFilter, defineSaturationDetector, duration } from "../../base/plugin/define.ts";
import { IN_FLIGHT_REQUESTS, IN_FLIGHT_TOKENS } from "../../base/plugin/keys.ts";
import type { Filter, PluginContext, SaturationDetector } from "../../base/plugin/kinds.ts";

/** Parameters with the metric values from which an endpoint counts as busy (scheduling 5.2, 5.3). */
const thresholds = {
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
    .describe("Metrics are stale above this age, or above 2.5 scrape intervals of the endpoint if that is longer."),
};

/** The parameter `headroom` of the detectors (scheduling 5.3). */
const headroom = z
  .number("headroom must be a number")
  .min(0, "headroom must not be negative")
  .default(0)
  .describe("Share above the threshold that the filter tolerates: 0.2 = 20 % above.");

/** Returns notes on a headroom for the author of a configuration. */
function headroomNotes(value: number): readonly string[] {
  if (value <= 1) return [];
  return [`headroom ${value} tolerates ${value * 100} percent above saturation; did you mean ${value / 100}?`];
}

const utilizationParameters = z.strictObject({ ...thresholds, headroom });

/** The least milliseconds between two warnings (scheduling 5.3). */
const WARNING_INTERVAL = 30_000;

/** The role in a profile: fails open (scheduling 3.15). */
const utilizationFilter = defineFilter({
  type: "utilization-detector",
  describe:
    "Keeps endpoints whose queue and KV-cache use are below threshold plus headroom; if none is below, keeps all.",
  parameters: utilizationParameters,
  create: utilizationFilterOf,
});

/** scheduling 5.3 */
export const utilizationDetector = defineSaturationDetector({
  type: "utilization-detector",
  describe:
    "Saturation from scraped metrics: for each endpoint, the higher of queue use and KV-cache use; then the mean of all endpoints. In a profile, it is a filter: it keeps the endpoints below both thresholds, or all if none is below.",
  parameters: utilizationParameters,
  inProfile: utilizationFilter,
  notes: (settings) => headroomNotes(settings.headroom),
  create: (settings, context) => new UtilizationDetector(settings, context),
});

/** See `utilizationDetector`. */
class UtilizationDetector implements SaturationDetector {
  /** Endpoints whose metrics were missing or stale at the last evaluation. */
  staleEndpoints = 0;
  /** The least scrape interval, the staleness and a reserve (scheduling 6.9). */
  readonly settles: number;
  readonly #queueDepth: number;
  readonly #kvUsage: number;
  readonly #staleness: number;
  readonly #log: PluginContext["log"];
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(settings: z.output<typeof utilizationParameters>, { log }: PluginContext) {
    this.#log = log;
    this.#queueDepth = settings.queueDepthThreshold;
    this.#kvUsage = settings.kvCacheUtilThreshold;
    this.#staleness = settings.metricsStalenessThreshold;
    this.settles = 50 + this.#staleness + 250;
  }

  /**
   * @param now monotonic milliseconds
   * @returns 0 = idle, 1 and above = saturated; 1 for an empty set. An endpoint with missing or stale metrics counts 1. Where
   *   it reports only its queue or only its KV use, that value decides.
   */
  saturation(endpoints: readonly Endpoint[], now: number): number {
    this.staleEndpoints = 0;
    if (endpoints.length === 0) return 1;
    let stale = 0;
    let sum = 0;
    for (const endpoint of endpoints) {
      const load = this.#loadOf(endpoint, now);
      if (Number.isNaN(load)) {
        stale++;
        sum++;
      } else sum += load;
    }
    this.staleEndpoints = stale;
    if (stale > 0 && now - this.#warnedAt >= WARNING_INTERVAL) this.#warn(endpoints.length, now);
    return sum / endpoints.length;
  }

  saturationOf(endpoint: Endpoint, now: number): number {
    const load = this.#loadOf(endpoint, now);
    return Number.isNaN(load) ? 1 : load;
  }

  /** NaN = its metrics are missing or stale. */
  #loadOf(endpoint: Endpoint, now: number): number {
    const queue = endpoint.metrics.waiting / this.#queueDepth;
    const kv = endpoint.metrics.kvUsage / this.#kvUsage;
    const load = kv > queue || Number.isNaN(queue) ? kv : queue;
    return isFresh(endpoint, now, this.#staleness) ? load : Number.NaN;
  }

  /**
   * As `saturation`. What was sent since the last scrape counts as waiting, unless the engine has run as many requests before.
   * Its prompt tokens count as KV use, where the size of the cache is known. What other replicas have probably sent counts, too.
   */
  expected(endpoints: readonly Endpoint[], now: number, further: number): number {
    if (endpoints.length === 0) return 1;
    let sum = 0;
    let spare = 0;
    for (const endpoint of endpoints) {
      const { waiting, running, kvUsage, blocks, blockSize } = endpoint.metrics;
      const { requests = 0, tokens = 0, capacity = 0 } = endpoint.unscraped ?? {};
      const unseen = unseenAt(endpoint, now);
      const sent = Math.min(requests, endpoint.inFlight.requests) + unseen.requests;
      const room = Math.max(0, capacity - running) || 0;
      spare += Math.max(0, room - sent);
      const queue = (waiting + Math.max(0, sent - room)) / this.#queueDepth;
      const cached = sent === 0 ? 0 : (tokens + unseen.tokens) / (blocks * blockSize) || 0;
      const kv = (kvUsage + cached) / this.#kvUsage;
      const load = kv > queue || Number.isNaN(queue) ? kv : queue;
      sum += Number.isNaN(load) || !isFresh(endpoint, now, this.#staleness) ? 1 : load;
    }
    return (sum + Math.max(0, further - spare) / this.#queueDepth) / endpoints.length;
  }

  /** Returns the state for `/debug/plugins/state`. */
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

/**
 * Keeps or drops an endpoint by its queue and its KV use, or by the one of them that it reports. Drops an endpoint with missing
 * or stale metrics.
 */
function utilizationFilterOf(settings: z.output<typeof utilizationParameters>): Filter {
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

const concurrencyParameters = z.strictObject({
  maxConcurrency: z
    .int("maxConcurrency must be a whole number")
    .positive("maxConcurrency must be greater than 0")
    .default(100)
    .describe("Requests in flight at which an endpoint is saturated."),
  maxTokenConcurrency: z
    .int("maxTokenConcurrency must be a whole number")
    .positive("maxTokenConcurrency must be greater than 0")
    .default(1_000_000)
    .describe("Tokens in flight at which an endpoint is saturated."),
  concurrencyMode: z
    .enum(["requests", "tokens", "hybrid"], { error: "concurrencyMode must be requests, tokens or hybrid" })
    .default("requests")
    .describe("requests or tokens = what counts; hybrid = for each endpoint the one that is nearer to its limit."),
  headroom,
  inFlightLoadProducerName: z
    .string()
    .default("")
    .describe("Instance name of the producer of in-flight load; empty = the only producer."),
});

type Settings = z.output<typeof concurrencyParameters>;

/** The limit of a value that has none in a mode. */
const NO_LIMIT = Number.POSITIVE_INFINITY;

/** The role in a profile: fails closed (scheduling 3.15). */
const concurrencyFilter = defineFilter({
  type: "concurrency-detector",
  describe: "Keeps endpoints with fewer requests or tokens in flight than limit plus headroom.",
  parameters: concurrencyParameters,
  requires: [IN_FLIGHT_REQUESTS, IN_FLIGHT_TOKENS],
  create: concurrencyFilterOf,
});

/** scheduling 5.3 */
export const concurrencyDetector = defineSaturationDetector({
  type: "concurrency-detector",
  describe:
    "Measures saturation: requests or tokens in flight from this process, divided by a limit for each endpoint. In a profile, it is a filter: it keeps endpoints under their limit; if none is left, Sluice refuses the request.",
  parameters: concurrencyParameters,
  inProfile: concurrencyFilter,
  notes: (settings) => headroomNotes(settings.headroom),
  create: (settings): SaturationDetector => {
    const { requests, tokens } = limitsOf(settings);
    return {
      settles: 10,
      /** What other replicas have probably sent counts, too. */
      saturation(endpoints: readonly Endpoint[], now: number): number {
        if (endpoints.length === 0) return 1;
        let sum = 0;
        for (const endpoint of endpoints) {
          const { inFlight } = endpoint;
          const unseen = unseenAt(endpoint, now);
          sum += Math.max((inFlight.requests + unseen.requests) / requests, (inFlight.tokens + unseen.tokens) / tokens);
        }
        return sum / endpoints.length;
      },
      /** The further requests are assumed to be as long as those in flight. */
      expected(endpoints: readonly Endpoint[], now: number, further: number): number {
        const present = this.saturation(endpoints, now);
        if (further === 0 || endpoints.length === 0) return present;
        let inFlight = 0;
        for (const endpoint of endpoints) inFlight += endpoint.inFlight.requests + unseenAt(endpoint, now).requests;
        return inFlight === 0
          ? present + further / ((requests === NO_LIMIT ? 1 : requests) * endpoints.length)
          : present * (1 + further / inFlight);
      },
    };
  },
});

function limitsOf({ concurrencyMode, maxConcurrency, maxTokenConcurrency }: Settings) {
  return {
    requests: concurrencyMode === "tokens" ? NO_LIMIT : maxConcurrency,
    tokens: concurrencyMode === "requests" ? NO_LIMIT : maxTokenConcurrency,
  };
}

function concurrencyFilterOf(settings: Settings): Filter {
  const limits = limitsOf(settings);
  const maxRequests = withHeadroom(limits.requests, settings.headroom);
  const maxTokens = withHeadroom(limits.tokens, settings.headroom);
  return {
    filter({ candidates, keep }) {
      const requests = candidates.column(IN_FLIGHT_REQUESTS);
      const tokens = candidates.column(IN_FLIGHT_TOKENS);
      for (let i = 0; i < candidates.count; i++)
        if (!(requests[i]! < maxRequests && tokens[i]! < maxTokens)) keep[i] = 0;
    },
  };
}

/** Returns whole requests or tokens. The function adds a small value first, because 100 * (1 + 0.15) is 114.99999999999999. */
function withHeadroom(limit: number, share: number): number {
  return Math.floor(limit * (1 + share) * (1 + Number.EPSILON * 2));
}

/** Not a published type. The detector of v1.0 to v1.4, which had no name (scheduling 5.2). */
export const noCapacityDetector = defineSaturationDetector({
  type: "no-capacity-detector",
  describe:
    "Gives only full or not full, as releases v1.0 to v1.4 did. The pool is not full while one endpoint has fresh metrics, with the queue and the KV-cache use at or below their thresholds.",
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

/** Not a published type. v0.3 had no saturation: only its tree refused requests (scheduling 5.1). */
export const neverSaturatedDetector = defineSaturationDetector({
  type: "never-saturated-detector",
  describe: "Never saturated: only the filters of the profile can refuse sheddable requests.",
  create: () => ({ saturation: () => 0 }),
});
