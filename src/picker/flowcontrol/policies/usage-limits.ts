import { z } from "zod";
import { defineUsageLimitPolicy } from "../../../base/plugin/define.ts";

/** scheduling 6.6 */
export const staticUsageLimitPolicy = defineUsageLimitPolicy({
  type: "static-usage-limit-policy",
  describe: "The same ceiling for all priorities: each band dispatches while the saturation is below it.",
  parameters: z.strictObject({
    threshold: z
      .number("threshold must be a number")
      .min(0, "threshold must not be negative")
      .default(1)
      .describe("Saturation from which no request is dispatched; 1 = the pool is full."),
  }),
  notes: ({ threshold }) => (threshold === 0 ? ["threshold 0 dispatches no request"] : []),
  create: ({ threshold }) => ({ limit: (_saturation, _priorities, ceilings) => void ceilings.fill(threshold) }),
});

const holdbackParameters = z
  .strictObject({
    minCeiling: z
      .number({
        error: ({ input }) => (input === undefined ? "minCeiling is required" : "minCeiling must be a number"),
      })
      .min(0, "minCeiling must be at least 0 and less than 1")
      .lt(1, "minCeiling must be at least 0 and less than 1")
      .describe("Ceiling of the lowest priority, at least 0 and below 1. Required."),
    maxCeiling: z
      .number("maxCeiling must be a number")
      .gt(0, "maxCeiling must be greater than 0 and at most 1")
      .max(1, "maxCeiling must be greater than 0 and at most 1")
      .default(1)
      .describe("Ceiling of the highest priority, above minCeiling and at most 1."),
    domain: z
      .enum(["rank", "value"], { error: "domain must be rank or value" })
      .default("rank")
      .describe(
        "rank = ceilings rise in equal steps from priority to priority; value = ceilings rise with the number of the priority.",
      ),
    shape: z.literal("linear", { error: "shape must be linear" }).default("linear").describe("How ceilings rise."),
  })
  .superRefine(({ minCeiling, maxCeiling }, context) => {
    // A ceiling out of its range is already reported.
    if (minCeiling < 1 && maxCeiling > 0 && minCeiling >= maxCeiling)
      context.addIssue({
        code: "custom",
        path: ["minCeiling"],
        message: `minCeiling ${minCeiling} must be less than maxCeiling ${maxCeiling}`,
      });
  });

/** scheduling 6.6. A single band has the highest ceiling: there is nobody for whom it could hold room back. */
export const priorityHoldbackPolicy = defineUsageLimitPolicy({
  type: "priority-holdback-policy",
  describe:
    "Holds room back for higher priorities: the ceiling is `minCeiling` for the lowest priority, `maxCeiling` for the highest, and rises in between.",
  parameters: holdbackParameters,
  create: ({ minCeiling, maxCeiling, domain }) => ({
    limit(_saturation, priorities, ceilings) {
      const last = priorities.length - 1;
      const highest = priorities[0]!;
      const span = domain === "rank" ? last : highest - priorities[last]!;
      for (let i = 0; i <= last; i++) {
        const below = domain === "rank" ? i : highest - priorities[i]!;
        ceilings[i] = span === 0 ? maxCeiling : maxCeiling - (below / span) * (maxCeiling - minCeiling);
      }
    },
  }),
});

/** Keeps the period finite where the saturation is nearly 1, as in the reference. */
const ROUND_OFF = 1e-9;

/**
 * scheduling 6.6. While the saturation is below 1, a band at its ceiling is open once in `period` calls. All such bands are
 * open in the same calls.
 */
export const softReflectiveCeilingPolicy = defineUsageLimitPolicy({
  type: "soft-reflective-ceiling-policy",
  describe:
    "The ceilings of lower priorities fall as the saturation rises. While the saturation is below 1, a band at its ceiling still gets a share of the dispatches; the share falls as the pool fills.",
  create() {
    let calls = 0;
    return {
      alternates: true,
      limit(saturation, priorities, ceilings) {
        const last = priorities.length - 1;
        if (last < 1) return void ceilings.fill(1);
        // The lowest ceiling is 1 - saturation. While that one is above the saturation, no band is at its ceiling.
        let atCeiling = 0;
        if (saturation >= 1 - saturation && saturation < 1) {
          const period = Math.max(1, Math.round(saturation / (1 - saturation + ROUND_OFF)));
          calls++;
          if (calls % period === 0) atCeiling = 1;
        }
        ceilings[0] = 1;
        for (let i = 1; i <= last; i++) ceilings[i] = saturation < 1 - (i * saturation) / last ? 1 : atCeiling;
      },
    };
  },
});
