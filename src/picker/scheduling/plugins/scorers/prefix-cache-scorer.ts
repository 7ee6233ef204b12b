import { z } from "zod";
import { defineScorer } from "../../../../base/plugin/define.ts";
import { PREFIX_BLOCK_TOKENS, PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS } from "../../../../base/plugin/keys.ts";

const parameters = z.strictObject({
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
    .describe("Matched tokens at which the length counts in full."),
  prefixMatchInfoProducerName: z
    .string()
    .default("")
    .describe("Instance name of the producer of prefix matches; empty = the only one."),
});

/** scheduling 3.9 */
export const prefixCacheScorer = defineScorer({
  type: "prefix-cache-scorer",
  describe: "Prefers endpoints that probably hold more of the prompt's beginning in their KV cache.",
  parameters,
  requires: [PREFIX_MATCHED_BLOCKS, PREFIX_TOTAL_BLOCKS, PREFIX_BLOCK_TOKENS],
  create: ({ matchLengthWeight, matchLengthScaleTokens }) => ({
    score({ candidates, out }) {
      const matched = candidates.column(PREFIX_MATCHED_BLOCKS);
      const total = candidates.column(PREFIX_TOTAL_BLOCKS);
      const blockTokens = candidates.column(PREFIX_BLOCK_TOKENS);
      for (let i = 0; i < candidates.count; i++) {
        if (!(total[i]! > 0)) continue;
        const length = Math.min(1, (matched[i]! * blockTokens[i]!) / matchLengthScaleTokens);
        const share = matched[i]! / total[i]!;
        out[i] = matchLengthWeight * length * length + (1 - matchLengthWeight) * share;
      }
    },
  }),
});
