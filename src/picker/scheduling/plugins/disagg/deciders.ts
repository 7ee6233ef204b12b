import { z } from "zod";
import { defineDecider } from "../../../../base/plugin/define.ts";
import { PREFIX_BLOCK_TOKENS, PREFIX_MATCHED_BLOCKS } from "../../../../base/plugin/keys.ts";
import { mediaParts } from "../../tokens/media-parts.ts";

const tokens = () => z.int().min(0, { error: "must not be negative" });

const parameters = z.strictObject({
  nonCachedTokens: tokens()
    .default(0)
    .describe(
      "The stage runs from this many prompt tokens outside the prefix cache of the endpoint; 0 = it never runs.",
    ),
  promptTokens: tokens().default(0).describe("The stage never runs for a prompt of fewer tokens; 0 = no limit."),
  prefixMatchInfoProducerName: z
    .string()
    .default("")
    .describe("Instance name of the producer of prefix matches; empty = the only producer."),
});

/** scheduling 3.7.1 */
export const prefixBasedPdDecider = defineDecider({
  type: "prefix-based-pd-decider",
  describe: "Runs a stage if the endpoint that is already chosen would have to compute many tokens of the prompt.",
  parameters,
  requires: [PREFIX_MATCHED_BLOCKS, PREFIX_BLOCK_TOKENS],
  notes: ({ nonCachedTokens }) => (nonCachedTokens === 0 ? ["the stage never runs: set nonCachedTokens"] : []),
  create: ({ nonCachedTokens, promptTokens }) => ({
    decide({ result, inputTokens }) {
      if (nonCachedTokens === 0 || inputTokens < promptTokens || inputTokens < nonCachedTokens) return false;
      const matched = result?.value(PREFIX_MATCHED_BLOCKS);
      const blockTokens = result?.value(PREFIX_BLOCK_TOKENS);
      if (matched === undefined || blockTokens === undefined) return false;
      return inputTokens - matched * blockTokens >= nonCachedTokens;
    },
  }),
});

/** scheduling 3.7.1 */
export const alwaysDisaggPdDecider = defineDecider({
  type: "always-disagg-pd-decider",
  describe: "Runs a stage for every request.",
  create: () => ({ decide: () => true }),
});

/** scheduling 3.7.1. `mediaParts` defines the parts that count; bodies that are not JSON have none. */
export const alwaysDisaggMultimodalDecider = defineDecider({
  type: "always-disagg-multimodal-decider",
  describe: "Runs a stage for every request with images, sounds or videos in its prompt.",
  create: () => ({ decide: ({ request }) => mediaParts(request).length > 0 }),
});
