import { z } from "zod";
import { defineFilter } from "../../../../base/plugin/define.ts";
import { labelOf } from "./label-selector.ts";

/** scheduling 3.15 */
export const byLabel = defineFilter({
  type: "by-label",
  describe: "Deprecated: keeps endpoints by the value of one label.",
  deprecated:
    "write label-selector-filter, with a condition `{key, operator: In, values}` for the label; `allowsNoLabel` has no counterpart there",
  parameters: z.strictObject({
    label: z.string().min(1, { error: "must not be empty" }).describe("The label."),
    validValues: z.array(z.string()).nullish().describe("The values that are kept."),
    allowsNoLabel: z.boolean().default(false).describe("Keep endpoints without the label, too."),
  }),
  notes: ({ label, validValues, allowsNoLabel }) =>
    allowsNoLabel || (validValues ?? []).length > 0
      ? []
      : [`it keeps no endpoint at all: give validValues the values of ${label} that are wanted`],
  create: ({ label, validValues, allowsNoLabel }) => {
    const valid = new Set(validValues);
    return {
      filter({ candidates: { endpoints, count }, keep }) {
        for (let i = 0; i < count; i++) {
          const value = labelOf(endpoints[i]!.labels, label);
          if (!(value === undefined ? allowsNoLabel : valid.has(value))) keep[i] = 0;
        }
      },
    };
  },
});
