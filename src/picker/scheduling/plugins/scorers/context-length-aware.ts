import { z } from "zod";
import { promptTokens } from "../../../../base/inference/request.ts";
import { defineFilter, defineScorer } from "../../../../base/plugin/define.ts";
import { TOKENIZED_PROMPT } from "../../../../base/plugin/keys.ts";
import type { DecisionContext } from "../../../../base/plugin/kinds.ts";
import { type ContextLengthRange, ContextLengthRanges } from "./context-length-range.ts";

const TYPE = "context-length-aware";

const parameters = z.strictObject({
  label: z
    .string()
    .min(1, { error: "must not be empty" })
    .default("llm-d.ai/context-length-range")
    .describe(
      "The label of endpoints that says which lengths they are meant for: `min-max` in tokens, such as `0-8192`.",
    ),
  enableFiltering: z
    .boolean()
    .default(false)
    .describe(
      "Also drop the endpoints that are meant for other lengths, and those whose label is no range; where none is left, the request is refused.",
    ),
});

const contextLengthFilter = defineFilter({
  type: TYPE,
  describe: "Keeps endpoints that are meant for requests of this length, and those that do not say.",
  parameters,
  optional: [TOKENIZED_PROMPT],
  create: ({ label }) => {
    const ranges = new ContextLengthRanges(label);
    return {
      filter(context) {
        const { endpoints, count } = context.candidates;
        const length = lengthOf(context);
        for (let i = 0; i < count; i++) {
          const range = ranges.of(endpoints[i]!);
          if (range !== undefined && (range === null || length < range.min || length > range.max)) context.keep[i] = 0;
        }
      },
    };
  },
});

/** scheduling 3.9.4 */
export const contextLengthAware = defineScorer({
  type: TYPE,
  describe:
    "Prefers endpoints that are meant for requests of this length, the narrower the better, then those that come near; with `enableFiltering` it is a filter, too.",
  parameters,
  optional: [TOKENIZED_PROMPT],
  alsoFilter: ({ enableFiltering }) => (enableFiltering ? contextLengthFilter : undefined),
  create: ({ label }) => {
    const ranges = new ContextLengthRanges(label);
    return {
      score(context) {
        const { endpoints, count } = context.candidates;
        const length = lengthOf(context);
        for (let i = 0; i < count; i++) {
          const range = ranges.of(endpoints[i]!);
          context.out[i] = range === undefined ? 0.5 : range === null ? 0 : scoreOf(length, range);
        }
      },
    };
  },
});

/** Tokens of the prompt: as counted, else estimated from its text. */
function lengthOf({ request, attribute }: DecisionContext): number {
  return attribute(TOKENIZED_PROMPT)?.count ?? promptTokens(request);
}

/** Above 0.3 within the range, at most 0.3 outside. */
function scoreOf(length: number, { min, max }: ContextLengthRange): number {
  if (length < min || length > max) {
    const distance = length < min ? min - length : length - max;
    return 0.3 / (1 + distance / 1000);
  }
  const width = max - min;
  if (width === 0) return 1;
  return 0.3 + 0.7 * (0.7 / (1 + width / 10_000) + (0.3 * (max - length)) / width);
}
