import { z } from "zod";
import { defineFilter, defineScorer } from "../../../../base/plugin/define.ts";
import {
  IN_FLIGHT_TOKENS,
  PREFIX_BLOCK_TOKENS,
  PREFIX_MATCHED_BLOCKS,
  PREFIX_TOTAL_BLOCKS,
} from "../../../../base/plugin/keys.ts";
import type { Filter, FilterContext } from "../../../../base/plugin/kinds.ts";

const scorerParameters = z.strictObject({
  matchLengthWeight: z
    .number()
    .min(0)
    .max(1)
    .default(0)
    .describe("Weight of the squared matched length against the matched share; 0 = only the share counts."),
  matchLengthScaleTokens: z
    .number()
    .positive()
    .default(8192)
    .describe("Matched tokens at which the length part of the score reaches its maximum."),
  prefixMatchInfoProducerName: z
    .string()
    .default("")
    .describe("Instance name of the producer of prefix matches; empty = the only producer."),
});

/** scheduling 3.9 */
export const prefixCacheScorer = defineScorer({
  type: "prefix-cache-scorer",
  describe: "Prefers endpoints that probably hold more of the prompt's beginning in their KV cache.",
  parameters: scorerParameters,
  requires: [PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS, PREFIX_BLOCK_TOKENS],
  create: ({ matchLengthWeight, matchLengthScaleTokens }) => ({
    score({ candidates, out }) {
      const matched = candidates.column(PREFIX_MATCHED_BLOCKS);
      const total = candidates.column(PREFIX_TOTAL_BLOCKS);
      const blockTokens = candidates.column(PREFIX_BLOCK_TOKENS);
      for (let i = 0; i < candidates.count; i++) {
        // Most candidates hold nothing of the prompt, and `out` is 0.
        if (!(matched[i]! > 0 && total[i]! > 0)) continue;
        const length = Math.min(1, (matched[i]! * blockTokens[i]!) / matchLengthScaleTokens);
        const share = matched[i]! / total[i]!;
        out[i] = matchLengthWeight * length * length + (1 - matchLengthWeight) * share;
      }
    },
  }),
});

const filterParameters = z
  .strictObject({
    affinityThreshold: z
      .number()
      .min(0)
      .max(1)
      .default(0.8)
      .describe(
        "An endpoint counts as holding the prompt if it holds at least this share of the blocks; 0 = the filter does nothing.",
      ),
    explorationProbability: z
      .number()
      .min(0)
      .max(1)
      .default(0)
      .describe("Probability that the filter keeps all endpoints, so that others also cache the prompt."),
    maxTTFTPenaltyMs: z
      .number()
      .min(0)
      .default(18_000)
      .describe(
        "If the best endpoint with the prompt is more than this many milliseconds slower to the first token than another endpoint, the filter keeps all. 0 = no limit.",
      ),
    ttftSource: z
      .enum(["prefillThroughput"], {
        error: ({ input }) =>
          input === "latencyPredictor"
            ? "latencyPredictor is not supported yet: needs the latency predictor"
            : undefined,
      })
      .default("prefillThroughput")
      .describe("Estimate of the time to the first token: from tokens in flight and `peakPrefillThroughput`."),
    peakPrefillThroughput: z
      .number()
      .min(0)
      .default(15_928)
      .describe(
        "Most prompt tokens that one endpoint computes per second. Measure this value for your model and hardware.",
      ),
    prefixMatchInfoProducerName: z
      .string()
      .default("")
      .describe("Instance name of the producer of prefix matches; empty = the only producer."),
    inFlightLoadProducerName: z
      .string()
      .default("")
      .describe("Instance name of the producer of in-flight load; empty = the only producer."),
  })
  .refine(({ maxTTFTPenaltyMs, peakPrefillThroughput }) => maxTTFTPenaltyMs === 0 || peakPrefillThroughput > 0, {
    path: ["peakPrefillThroughput"],
    message: "must be greater than 0 unless maxTTFTPenaltyMs is 0",
  });

/** scheduling 3.13: sticky until the endpoints that hold the prompt are saturated. */
export const prefixCacheAffinityFilter = defineFilter({
  type: "prefix-cache-affinity-filter",
  describe:
    "Keeps the endpoints that probably hold most of the prompt, unless another endpoint would answer much sooner. If no endpoint holds the prompt, keeps all.",
  parameters: filterParameters,
  requires: [PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS, IN_FLIGHT_TOKENS],
  create: (settings) => new PrefixCacheAffinity(settings),
});

class PrefixCacheAffinity implements Filter {
  readonly #threshold: number;
  readonly #exploration: number;
  /** Tokens in flight that an endpoint with the prompt may have above those of the best other endpoint. */
  readonly #maxTokensMore: number;

  constructor(settings: z.output<typeof filterParameters>) {
    const { affinityThreshold, explorationProbability, maxTTFTPenaltyMs, peakPrefillThroughput } = settings;
    this.#threshold = affinityThreshold;
    this.#exploration = explorationProbability;
    this.#maxTokensMore =
      maxTTFTPenaltyMs === 0 ? Number.POSITIVE_INFINITY : (maxTTFTPenaltyMs / 1000) * peakPrefillThroughput;
  }

  filter({ candidates, keep, random }: FilterContext): void {
    const { count } = candidates;
    if (count <= 1 || this.#threshold === 0) return;
    if (this.#exploration > 0 && random.next() < this.#exploration) return;
    const matched = candidates.column(PREFIX_MATCHED_BLOCKS);
    const total = candidates.column(PREFIX_TOTAL_BLOCKS);
    const tokens = candidates.column(IN_FLIGHT_TOKENS);
    let sticky = Number.POSITIVE_INFINITY;
    let other = Number.POSITIVE_INFINITY;
    for (let i = 0; i < count; i++) {
      if (total[i]! > 0 && matched[i]! / total[i]! >= this.#threshold) sticky = Math.min(sticky, tokens[i]!);
      else {
        other = Math.min(other, tokens[i]!);
        keep[i] = 0;
      }
    }
    const nobody = sticky === Number.POSITIVE_INFINITY;
    // For example, a limit of 18 s at 15,928 tokens a second is a difference of 286,704 tokens.
    if (nobody || sticky - other > this.#maxTokensMore) keep.fill(1, 0, count);
  }
}
