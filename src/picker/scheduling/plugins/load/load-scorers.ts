import { z } from "zod";
import { defineScorer } from "../../../../base/plugin/define.ts";
import { IN_FLIGHT_REQUESTS, IN_FLIGHT_TOKENS, UNCACHED_TOKENS } from "../../../../base/plugin/keys.ts";

/**
 * `(max - v) / (max - min)` per candidate: 1 for the least, 0 for the most. Where all values are equal, or all are unknown
 * (NaN), all candidates get 1.
 */
function lowerIsBetter(values: Float64Array, count: number, out: Float64Array): void {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < count; i++) {
    const value = values[i]!;
    if (value < min) min = value;
    if (value > max) max = value;
  }
  const range = max - min;
  if (!(range > 0)) {
    out.fill(1, 0, count);
    return;
  }
  for (let i = 0; i < count; i++) out[i] = (max - values[i]!) / range;
}

/** scheduling 3.9 */
export const queueScorer = defineScorer({
  type: "queue-scorer",
  describe: "Prefers endpoints with fewer waiting requests: score 1 for the fewest, 0 for the most, linear between.",
  create: () => ({
    score({ candidates, out }) {
      lowerIsBetter(candidates.waiting, candidates.count, out);
    },
  }),
});

/** scheduling 3.9 */
export const runningRequestsSizeScorer = defineScorer({
  type: "running-requests-size-scorer",
  describe: "Prefers endpoints with fewer running requests: score 1 for the fewest, 0 for the most, linear between.",
  create: () => ({
    score({ candidates, out }) {
      lowerIsBetter(candidates.running, candidates.count, out);
    },
  }),
});

/** scheduling 3.9 */
export const kvCacheUtilizationScorer = defineScorer({
  type: "kv-cache-utilization-scorer",
  describe: "Prefers endpoints with more free KV cache: the score is the free share.",
  create: () => ({
    score({ candidates, out }) {
      const { kvUsage, count } = candidates;
      for (let i = 0; i < count; i++) out[i] = Number.isNaN(kvUsage[i]) ? 1 : 1 - kvUsage[i]!;
    },
  }),
});

const DEFAULT_WAITING = 128;

/** scheduling 3.9. An unknown queue counts as empty. */
export const loadAwareScorer = defineScorer({
  type: "load-aware-scorer",
  describe: "Prefers endpoints with a shorter queue: score 0.5 for an empty queue, 0 at the threshold and above.",
  parameters: z.strictObject({
    threshold: z
      .number()
      .default(DEFAULT_WAITING)
      .transform((value) => (value > 0 ? value : DEFAULT_WAITING))
      .describe("Waiting requests at which the score reaches 0; 0 or less counts as 128."),
  }),
  create: ({ threshold }) => ({
    score({ candidates, out }) {
      const { waiting, count } = candidates;
      for (let i = 0; i < count; i++)
        out[i] = waiting[i]! > 0 ? 0.5 * (1 - Math.min(waiting[i]!, threshold) / threshold) : 0.5;
    },
  }),
});

const activeRequestParameters = z.strictObject({
  idleThreshold: z
    .number()
    .default(0)
    .transform((value) => Math.max(0, value))
    .describe("An endpoint with at most this many requests in flight counts as idle; negative = 0."),
  maxBusyScore: z
    .number()
    .default(1)
    .transform((value) => (value >= 0 && value <= 1 ? value : 1))
    .describe("Highest score of a busy endpoint, 0 to 1; a value outside counts as 1."),
  inFlightLoadProducerName: z
    .string()
    .default("")
    .describe("Instance name of the producer of in-flight load; empty = the only producer."),
  requestTimeout: z.unknown().optional().describe("Accepted for older configurations, ignored."),
});

/** scheduling 3.9 */
export const activeRequestScorer = defineScorer({
  type: "active-request-scorer",
  describe:
    "Prefers endpoints with fewer requests in flight from this process: score 1 without any, 0 for the most, linear between.",
  parameters: activeRequestParameters,
  requires: [IN_FLIGHT_REQUESTS],
  create: ({ idleThreshold, maxBusyScore }) => ({
    score({ candidates, out }) {
      const inFlight = candidates.column(IN_FLIGHT_REQUESTS);
      const { count } = candidates;
      let most = 0;
      for (let i = 0; i < count; i++) if (inFlight[i]! > most) most = inFlight[i]!;
      for (let i = 0; i < count; i++)
        out[i] = inFlight[i]! <= idleThreshold ? 1 : ((most - inFlight[i]!) / most) * maxBusyScore;
    },
  }),
});

/** 128 requests of 32 Ki tokens. */
const DEFAULT_TOKENS = 128 * 32 * 1024;

const tokenLoadParameters = z.strictObject({
  queueThresholdTokens: z
    .number()
    .default(DEFAULT_TOKENS)
    .transform((value) => (value > 0 ? value : DEFAULT_TOKENS))
    .describe("Tokens at which the score reaches 0; 0 or less counts as 4194304."),
  inFlightLoadProducerName: z
    .string()
    .default("")
    .describe("Instance name of the producer of in-flight load; empty = the only producer."),
});

/** scheduling 3.9 */
export const tokenLoadScorer = defineScorer({
  type: "token-load-scorer",
  describe:
    "Prefers endpoints with fewer tokens in flight from this process, the tokens to compute of this request included.",
  parameters: tokenLoadParameters,
  requires: [IN_FLIGHT_TOKENS, UNCACHED_TOKENS],
  create: ({ queueThresholdTokens }) => ({
    score({ candidates, out }) {
      const inFlight = candidates.column(IN_FLIGHT_TOKENS);
      const uncached = candidates.column(UNCACHED_TOKENS);
      for (let i = 0; i < candidates.count; i++) {
        const tokens = inFlight[i]! + uncached[i]!;
        out[i] = tokens > 0 ? 1 - Math.min(tokens, queueThresholdTokens) / queueThresholdTokens : 1;
      }
    },
  }),
});
