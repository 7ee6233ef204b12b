import type { Endpoint } from "../../../src/base/inference/endpoint.ts";
import type { SlowParameters } from "./slow-config.cases.ts";
import { isFreshFor, lengthRangeOf, millisecondsOf, type SlowCandidate, type SlowView } from "./slow-view.cases.ts";

/** Who is left of the candidates, by type of the filter (scheduling 3.15). */
type SlowFilter = (candidates: readonly SlowCandidate[], parameters: SlowParameters, view: SlowView) => SlowCandidate[];

const label = (endpoint: Endpoint, key: string): string | undefined =>
  new Map(Object.entries(endpoint.labels)).get(key);

const bySelector: SlowFilter = (candidates, { matchLabels = {}, matchExpressions = [] }) =>
  candidates.filter(
    ({ endpoint }) =>
      Object.entries(matchLabels).every(([key, value]) => label(endpoint, key) === value) &&
      matchExpressions.every(({ key, operator, values = [] }) => {
        const value = label(endpoint, key);
        if (operator === "Exists") return value !== undefined;
        if (operator === "DoesNotExist") return value === undefined;
        if (operator === "In") return value !== undefined && values.includes(value);
        return value === undefined || !values.includes(value);
      }),
  );

const byRole =
  (...roles: (string | undefined)[]): SlowFilter =>
  (candidates) =>
    candidates.filter(({ endpoint }) => roles.includes(label(endpoint, "llm-d.ai/role")));

/** Whole requests or tokens, without what floating point does to 100 * 1.15. */
const withHeadroom = (limit: number, headroom: number): number =>
  Math.floor(Math.round(limit * (1 + headroom) * 1e6) / 1e6);

export const SLOW_FILTERS: Readonly<Record<string, SlowFilter>> = {
  "label-selector-filter": bySelector,
  "by-label-selector": bySelector,
  "by-label": (candidates, { label: key = "", validValues = [], allowsNoLabel = false }) =>
    candidates.filter(({ endpoint }) => {
      const value = label(endpoint, key);
      return value === undefined ? allowsNoLabel : validValues.includes(value);
    }),
  "decode-filter": byRole("decode", "prefill-decode", "both", "encode-prefill-decode", undefined),
  "prefill-filter": byRole("prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"),
  "encode-filter": byRole("encode", "encode-prefill", "encode-prefill-decode"),
  "session-affinity-filter": (candidates, _parameters, { session }) => {
    const bound = candidates.filter(({ endpoint }) => endpoint.id === session);
    return bound.length > 0 ? bound : [...candidates];
  },
  // House rule: of an endpoint that reports only queue or only KV use, that one decides.
  "utilization-detector": (candidates, parameters, { now }) => {
    const { queueDepthThreshold = 5, kvCacheUtilThreshold = 0.8, headroom = 0, metricsStalenessThreshold } = parameters;
    const left = candidates.filter(({ endpoint }) => {
      const { waiting, kvUsage } = endpoint.metrics;
      if (!isFreshFor(endpoint, now, millisecondsOf(metricsStalenessThreshold ?? "200ms"))) return false;
      if (Number.isNaN(waiting) && Number.isNaN(kvUsage)) return false;
      const shortQueue = Number.isNaN(waiting) || waiting < queueDepthThreshold * (1 + headroom);
      const freeCache = Number.isNaN(kvUsage) || kvUsage < kvCacheUtilThreshold * (1 + headroom);
      return shortQueue && freeCache;
    });
    return left.length > 0 ? left : [...candidates];
  },
  "concurrency-detector": (candidates, parameters) => {
    const { maxConcurrency = 100, maxTokenConcurrency = 1_000_000, headroom = 0 } = parameters;
    const { concurrencyMode = "requests" } = parameters;
    return candidates.filter(({ endpoint: { inFlight } }) => {
      const fewRequests = inFlight.requests < withHeadroom(maxConcurrency, headroom);
      const fewTokens = inFlight.tokens < withHeadroom(maxTokenConcurrency, headroom);
      return (concurrencyMode === "tokens" || fewRequests) && (concurrencyMode === "requests" || fewTokens);
    });
  },
  "utilization-filter": (candidates, { conditions = [], fallbackOnEmpty = false }) => {
    const left = candidates.filter(({ endpoint, waiting, running, kvUsage }) =>
      conditions.every(({ metric, maxValue }) => {
        const values = new Map([
          ["active-requests", endpoint.inFlight.requests],
          ["running-requests", running],
          ["waiting-queue", waiting],
          ["kv-cache-utilization", kvUsage],
        ]);
        return (values.get(metric) || 0) <= maxValue;
      }),
    );
    return left.length === 0 && fallbackOnEmpty ? [...candidates] : left;
  },
  // By whole numbers: the factor has at most three digits behind the point.
  "bounded-load-filter": (candidates, { meanLoadFactor = 1.4, minRequests = 4 }) => {
    const loads = candidates.map(({ endpoint }) => endpoint.inFlight.requests);
    const total = loads.reduce((sum, load) => sum + load, 1);
    const thousandths = Math.round(meanLoadFactor * 1000) * total;
    return candidates.filter((_, i) => {
      // Rounded up: a load fits where one request fewer is below the bound.
      return loads[i]! < minRequests || loads[i]! * 1000 * candidates.length < thousandths;
    });
  },
  // 3.13; explored always or never here.
  "prefix-cache-affinity-filter": (candidates, parameters, { match }) => {
    const { affinityThreshold = 0.8, explorationProbability = 0, maxTTFTPenaltyMs = 18_000 } = parameters;
    const { peakPrefillThroughput = 15_928 } = parameters;
    const holds = ({ endpoint }: SlowCandidate) =>
      match!.total > 0 && match!.matched.get(endpoint.id)! / match!.total >= affinityThreshold;
    const timeOf = (some: readonly SlowCandidate[]) =>
      Math.min(...some.map(({ endpoint }) => (endpoint.inFlight.tokens / peakPrefillThroughput) * 1000));
    const sticky = candidates.filter(holds);
    const others = candidates.filter((candidate) => !holds(candidate));
    if (sticky.length === 0 || explorationProbability === 1) return [...candidates];
    // House rule: a penalty of 0 is none.
    const tooSlow = maxTTFTPenaltyMs > 0 && others.length > 0 && timeOf(sticky) - timeOf(others) > maxTTFTPenaltyMs;
    return tooSlow ? [...candidates] : sticky;
  },
  "context-length-aware": (candidates, parameters, { inputTokens }) => {
    if (parameters.enableFiltering !== true) return [...candidates];
    return candidates.filter(({ endpoint }) => {
      const range = lengthRangeOf(endpoint, parameters);
      return range === undefined || (range !== null && range.min <= inputTokens && inputTokens <= range.max);
    });
  },
};
