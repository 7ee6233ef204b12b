import { z } from "zod";
import { attributeOf } from "../../../../base/inference/endpoint.ts";
import { defineFilter, defineScorer } from "../../../../base/plugin/define.ts";
import type { Candidates } from "../../../../base/plugin/kinds.ts";

const STANDARD_PRODUCER = "core-metrics-extractor";

const text = (name: string) => z.string(`${name} must be a string`).min(1, { error: "must not be empty" });

const producer = () =>
  z
    .string("producer must be a string")
    .optional()
    .describe(
      `Type of the extractor that writes the attribute, such as \`dcgm-extractor\`. Absent = \`${STANDARD_PRODUCER}\`, whose customMetrics are attributes. Empty = any extractor may write the attribute, such as \`llm-d.ai/multicluster-queue-size\`.`,
    );

/** Attribute and producer were once one text. Read as a name, it would be that of an attribute which no endpoint has. */
function checkName(key: string, name: string, given: string | undefined, context: z.RefinementCtx): void {
  const at = name.lastIndexOf("/");
  if (given !== undefined || at < 0) return;
  const message = `has a slash, but no producer is given; write ${key}: ${JSON.stringify(name.slice(0, at))} and producer: ${JSON.stringify(name.slice(at + 1))}, or producer: "" if the slash belongs to the name`;
  context.addIssue({ code: "custom", path: [key], message });
}

function keyOf(attribute: string, given: string | undefined): string {
  return `${attribute}/${given ?? STANDARD_PRODUCER}`;
}

/** The value of an attribute for a candidate; undefined where it is missing or its metrics are stale. */
function valueAt({ endpoints, fresh }: Candidates, at: number, key: string): number | undefined {
  const endpoint = endpoints[at]!;
  // Stale metrics keep their old attributes; those of other pages are gone when they are stale.
  if (fresh[at] === 0 && endpoint.metrics.attributes?.has(key) === true) return undefined;
  return attributeOf(endpoint, key);
}

const OPERATORS = {
  LessThan: (a: number, b: number) => a < b,
  LessThanOrEqual: (a: number, b: number) => a <= b,
  GreaterThan: (a: number, b: number) => a > b,
  GreaterThanOrEqual: (a: number, b: number) => a >= b,
  Equal: (a: number, b: number) => a === b,
  NotEqual: (a: number, b: number) => a !== b,
} as const;

const filterAlgorithm = z.strictObject({
  type: z.literal("threshold", { error: "must be threshold, the only algorithm of this filter" }),
  threshold: z.strictObject({
    operator: z.enum(Object.keys(OPERATORS) as (keyof typeof OPERATORS)[], {
      error: `must be one of ${Object.keys(OPERATORS).join(", ")}`,
    }),
    value: z.number().default(0),
  }),
});

/** scheduling 3.15 */
export const endpointAttributeFilter = defineFilter({
  type: "endpoint-attribute-filter",
  describe: "Keeps the endpoints whose value of an attribute passes the threshold of `algorithm`.",
  parameters: z
    .strictObject({
      attribute: text("attribute").describe("The attribute."),
      producer: producer(),
      onMissing: z
        .enum(["Pass", "Fail", ""], { error: "must be Pass or Fail" })
        .default("Pass")
        .describe("Whether endpoints without the attribute are kept: `Pass` or `Fail`."),
      fallbackOnEmpty: z.boolean().default(false).describe("Keep all endpoints if none is left."),
      algorithm: filterAlgorithm.describe(
        `\`{type: threshold, threshold: {operator, value}}\`; operator ${Object.keys(OPERATORS)
          .map((name) => `\`${name}\``)
          .join(", ")}.`,
      ),
    })
    .superRefine(({ attribute, producer }, context) => checkName("attribute", attribute, producer, context)),
  endpointAttributes: ({ attribute, producer }) => [keyOf(attribute, producer)],
  create: ({ attribute, producer, onMissing, fallbackOnEmpty, algorithm }) => {
    const key = keyOf(attribute, producer);
    const { operator, value: bound } = algorithm.threshold;
    const holds = OPERATORS[operator];
    const passes = onMissing !== "Fail";
    return {
      filter({ candidates, keep }) {
        const { count } = candidates;
        let left = 0;
        for (let i = 0; i < count; i++) {
          const value = valueAt(candidates, i, key);
          if (value === undefined ? passes : holds(value, bound)) left++;
          else keep[i] = 0;
        }
        if (left === 0 && fallbackOnEmpty) keep.fill(1, 0, count);
      },
    };
  },
});

const fixedRange = z
  .strictObject({ min: z.number().default(0), max: z.number().default(0) })
  .refine(({ min, max }) => min < max, { error: "min must be less than max" });

const scorerAlgorithm = z.strictObject({
  type: z.enum(["linear_lower_is_better", "linear_higher_is_better"], {
    error: "must be linear_lower_is_better or linear_higher_is_better",
  }),
  normalization: z
    .strictObject({ fixedRange: fixedRange.nullish(), adaptiveRange: z.strictObject({}).nullish() })
    .refine(({ fixedRange, adaptiveRange }) => !fixedRange || !adaptiveRange, {
      error: "give fixedRange or adaptiveRange, not both",
    })
    .nullish(),
});

/** scheduling 3.9 */
export const endpointAttributeScorer = defineScorer({
  type: "endpoint-attribute-scorer",
  describe: "Prefers endpoints with a lower, or a higher, value of an attribute. Endpoints without it score 0.",
  parameters: z
    .strictObject({
      attributeKey: text("attributeKey").describe("The attribute."),
      producer: producer(),
      algorithm: scorerAlgorithm.describe(
        "`{type, normalization}`; type `linear_lower_is_better` or `linear_higher_is_better`; normalization `fixedRange: {min, max}` = the values that score 0 and 1, or `adaptiveRange: {}` (default) = the least and the greatest value of the candidates.",
      ),
    })
    .superRefine(({ attributeKey, producer }, context) => checkName("attributeKey", attributeKey, producer, context)),
  endpointAttributes: ({ attributeKey, producer }) => [keyOf(attributeKey, producer)],
  create: ({ attributeKey, producer, algorithm }) => {
    const key = keyOf(attributeKey, producer);
    const fixed = algorithm.normalization?.fixedRange;
    const lower = algorithm.type === "linear_lower_is_better";
    return {
      score({ candidates, out }) {
        const { count } = candidates;
        let min = fixed?.min ?? Number.POSITIVE_INFINITY;
        let max = fixed?.max ?? Number.NEGATIVE_INFINITY;
        for (let i = 0; fixed == null && i < count; i++) {
          const value = valueAt(candidates, i, key);
          if (value === undefined) continue;
          min = Math.min(min, value);
          max = Math.max(max, value);
        }
        for (let i = 0; i < count; i++) {
          const value = valueAt(candidates, i, key);
          if (value === undefined) continue;
          const share = max > min ? Math.min(1, Math.max(0, (value - min) / (max - min))) : Number.NaN;
          out[i] = Number.isNaN(share) ? 1 : lower ? 1 - share : share;
        }
      },
    };
  },
});
