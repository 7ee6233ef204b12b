import { z } from "zod";
import type { Endpoint } from "../../../base/inference/endpoint.ts";
import { promptTokens } from "../../../base/inference/request.ts";
import { defineFilter, defineScorer } from "../../../base/plugin/define.ts";
import { TOKENIZED_PROMPT } from "../../../base/plugin/keys.ts";
import type { DecisionContext } from "../../../base/plugin/kinds.ts";
import { labelOf } from "./labels.ts";

/** The most label values of a pool to keep; more than any pool has kinds of servers. */
const MAX_KEPT = 256;

/** The lengths of requests, in tokens, for an endpoint; both bounds are included. */
interface ContextLengthRange {
  readonly min: number;
  readonly max: number;
}

/** Reads ranges from a label and parses each value once. */
export class ContextLengthRanges {
  readonly #label: string;
  readonly #known = new Map<string, ContextLengthRange | null>();

  constructor(label: string) {
    this.#label = label;
  }

  /** The number of kept values, at most 256. */
  get size(): number {
    return this.#known.size;
  }

  /** @returns undefined without the label, null when its value is no range */
  of({ labels }: Endpoint): ContextLengthRange | null | undefined {
    const text = labelOf(labels, this.#label);
    if (text === undefined) return undefined;
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    const range = parseRange(text);
    if (this.#known.size >= MAX_KEPT) this.#known.clear();
    this.#known.set(text, range);
    return range;
  }
}

/** `min-max` in whole tokens, such as `0-8192` (scheduling 3.9.4). */
function parseRange(text: string): ContextLengthRange | null {
  const [, from, to] = /^\s*(\d{1,15})\s*-\s*(\d{1,15})\s*$/.exec(text) ?? [];
  const [min, max] = [Number(from), Number(to)];
  return min <= max ? { min, max } : null;
}

const TYPE = "context-length-aware";

const parameters = z.strictObject({
  label: z
    .string()
    .min(1, { error: "must not be empty" })
    .default("llm-d.ai/context-length-range")
    .describe("The label with the length range of an endpoint: `min-max` in tokens, such as `0-8192`."),
  enableFiltering: z
    .boolean()
    .default(false)
    .describe(
      "Also drop endpoints for other lengths and endpoints whose label is not a range; if none is left, refuse the request.",
    ),
});

const contextLengthFilter = defineFilter({
  type: TYPE,
  describe: "Keeps endpoints whose range includes the length of the request, and endpoints without the label.",
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
    "Prefers endpoints whose range includes the length of the request, most of all those with a narrow range. Among other ranges, it prefers the nearest one. With `enableFiltering`, it is also a filter.",
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

/** Returns the counted tokens of the prompt; without a count, estimates them from its text. */
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
