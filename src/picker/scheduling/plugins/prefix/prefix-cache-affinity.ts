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
    .describe("Weight of the matched length, squared, against the matched share; 0 = share only."),
  matchLengthScaleTokens: z
    .number()
    .positive()
    .default(8192)
    .describe("Matched tokens at which the part of the length reaches its maximum."),
  prefixMatchInfoProducerName: z
    .string()
    .default("")
    .describe("Instance name of the producer of prefix matches; empty = the only one."),
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
        "Share of the prompt's blocks from which an endpoint counts as holding it; 0 = the filter does nothing.",
      ),
    explorationProbability: z
      .number()
      .min(0)
      .max(1)
      .default(0)
      .describe("Probability of keeping all endpoints, so that others cache the prompt, too."),
    maxTTFTPenaltyMs: z
      .number()
      .min(0)
      .default(18_000)
      .describe(
        "A limit in milliseconds: if the best endpoint with the prompt is slower to the first token than another one by more, the filter keeps all endpoints. 0 = no limit.",
      ),
    ttftSource: z
      .enum(["prefillThroughput"], {
        error: ({ input }) =>
          input === "latencyPredictor" ? "latencyPredictor: not yet: needs the latency predictor" : undefined,
      })
      .default("prefillThroughput")
      .describe("Estimate of the time to the first token: from tokens in flight and `peakPrefillThroughput`."),
    peakPrefillThroughput: z
      .number()
      .min(0)
      .default(15_928)
      .describe("Prompt tokens that one endpoint computes per second at best; measure it for your model and hardware."),
    prefixMatchInfoProducerName: z
      .string()
      .default("")
      .describe("Instance name of the producer of prefix matches; empty = the only one."),
    inFlightLoadProducerName: z
      .string()
      .default("")
      .describe("Instance name of the producer of in-flight load; empty = the only one."),
  })
  .refine(({ maxTTFTPenaltyMs, peakPrefillThroughput }) => maxTTFTPenaltyMs === 0 || peakPrefillThroughput > 0, {
    path: ["peakPrefillThroughput"],
    message: "must be greater than 0 unless maxTTFTPenaltyMs is 0",
  });

/** scheduling 3.13: sticky until the endpoints that hold the prompt are saturated. */
export const prefixCacheAffinityFilter = defineFilter({
  type: "prefix-cache-affinity-filter",
  describe:
    "Keeps the endpoints that probably hold most of the prompt, unless another one would answer much sooner. Keeps all endpoints if none holds it.",
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
