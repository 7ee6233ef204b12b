import type { SlowParameters } from "./slow-config.cases.ts";
import { lengthRangeOf, type SlowCandidate, type SlowView } from "./slow-view.cases.ts";

/** A score per candidate, by type of the scorer (scheduling 3.9). */
type SlowScorer = (candidates: readonly SlowCandidate[], parameters: SlowParameters, view: SlowView) => number[];

/** `(max - v)/(max - min)`, 1 for all where all are equal or unknown. */
function fewest(values: readonly number[]): number[] {
  const [min, max] = [Math.min(...values), Math.max(...values)];
  return values.map((value) => (max > min ? (max - value) / (max - min) : 1));
}

export const SLOW_SCORERS: Readonly<Record<string, SlowScorer>> = {
  "queue-scorer": (candidates) => fewest(candidates.map(({ waiting }) => waiting)),
  "running-requests-size-scorer": (candidates) => fewest(candidates.map(({ running }) => running)),
  "kv-cache-utilization-scorer": (candidates) =>
    candidates.map(({ kvUsage }) => (Number.isNaN(kvUsage) ? 1 : 1 - kvUsage)),
  // House rule: who has no believable metrics gets the worst score of those that have.
  "lora-affinity-scorer": (candidates, _parameters, { targetModel }) => {
    const scores = candidates.map(({ endpoint: { metrics }, fresh }) => {
      if (!fresh) return Number.NaN;
      if (metrics.loraRunning.has(targetModel)) return 1;
      if (metrics.loraRunning.size + metrics.loraWaiting.size < (metrics.maxLora || 0)) return 0.8;
      return metrics.loraWaiting.has(targetModel) ? 0.6 : 0;
    });
    const known = scores.filter((score) => !Number.isNaN(score));
    return scores.map((score) => (Number.isNaN(score) ? (known.length > 0 ? Math.min(...known) : 0) : score));
  },
  "prefix-cache-scorer": (candidates, { matchLengthWeight = 0, matchLengthScaleTokens = 8192 }, { match }) =>
    candidates.map(({ endpoint }) => {
      if (match === undefined || match.total === 0) return 0;
      const matched = match.matched.get(endpoint.id)!;
      const length = Math.min(1, (matched * match.blockTokens) / matchLengthScaleTokens);
      return matchLengthWeight * length ** 2 + (1 - matchLengthWeight) * (matched / match.total);
    }),
  "load-aware-scorer": (candidates, { threshold = 128 }) => {
    const limit = threshold > 0 ? threshold : 128;
    return candidates.map(({ waiting }) => (waiting > 0 ? 0.5 * (1 - Math.min(waiting, limit) / limit) : 0.5));
  },
  "active-request-scorer": (candidates, { idleThreshold = 0, maxBusyScore = 1 }) => {
    const counts = candidates.map(({ endpoint }) => endpoint.inFlight.requests);
    const most = Math.max(...counts);
    const cap = maxBusyScore >= 0 && maxBusyScore <= 1 ? maxBusyScore : 1;
    return counts.map((count) => (count <= Math.max(0, idleThreshold) ? 1 : ((most - count) / most) * cap));
  },
  "token-load-scorer": (candidates, { queueThresholdTokens = 4_194_304 }, { uncachedTokens }) => {
    const limit = queueThresholdTokens > 0 ? queueThresholdTokens : 4_194_304;
    return candidates.map(({ endpoint: { id, inFlight } }) => {
      const tokens = inFlight.tokens + uncachedTokens.get(id)!;
      return tokens <= 0 ? 1 : 1 - Math.min(tokens, limit) / limit;
    });
  },
  "session-affinity-scorer": (candidates, _parameters, { session }) =>
    candidates.map(({ endpoint }) => (endpoint.id === session ? 1 : 0)),
  "no-hit-lru-scorer": (candidates, _parameters, { match, coldRanks }) => {
    const isWarm = candidates.some(({ endpoint }) => match!.matched.get(endpoint.id)! > 0);
    return candidates.map(({ endpoint }) => {
      if (isWarm) return 0.5;
      if (candidates.length === 1) return 1;
      return Math.max(0, 1 - coldRanks.get(endpoint.id)! / (candidates.length - 1));
    });
  },
  "context-length-aware": (candidates, parameters, { inputTokens }) =>
    candidates.map(({ endpoint }) => {
      const range = lengthRangeOf(endpoint, parameters);
      if (range === undefined) return 0.5;
      if (range === null) return 0;
      const { min, max } = range;
      if (inputTokens < min) return 0.3 / (1 + (min - inputTokens) / 1000);
      if (inputTokens > max) return 0.3 / (1 + (inputTokens - max) / 1000);
      if (max === min) return 1;
      const width = max - min;
      return 0.3 + 0.7 * (0.7 / (1 + width / 10_000) + (0.3 * (max - inputTokens)) / width);
    }),
  "header-label-affinity-scorer": (candidates, { headerName = "", labelKey = "" }, { header }) => {
    const wanted = header(headerName);
    return candidates.map(({ endpoint }) => (wanted && endpoint.labels[labelKey] === wanted ? 1 : 0));
  },
  /** What a plugin of a user may do: any number, by rank of the endpoint; `null` = not a number. */
  "given-scorer": (candidates, { values = [] }) =>
    candidates.map(({ endpoint }) => values[endpoint.slot % values.length] ?? Number.NaN),
};
