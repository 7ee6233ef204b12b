import { z } from "zod";
import { defineScorer } from "../../../../base/plugin/define.ts";

const DEFAULT_THRESHOLD = 128;

/** scheduling 3.9. A queue that nobody knows counts as empty. */
export const loadAwareScorer = defineScorer({
  type: "load-aware-scorer",
  describe: "Prefers endpoints with a shorter queue: 0.5 when it is empty, 0 from the threshold on.",
  parameters: z.strictObject({
    threshold: z
      .number()
      .default(DEFAULT_THRESHOLD)
      .transform((value) => (value > 0 ? value : DEFAULT_THRESHOLD))
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
