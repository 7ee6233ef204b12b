import { defineScorer } from "../../../../base/plugin/define.ts";
import { lowerIsBetter } from "./lower-is-better.ts";

/** scheduling 3.9 */
export const queueScorer = defineScorer({
  type: "queue-scorer",
  describe: "Prefers endpoints with fewer waiting requests, relative to the other candidates.",
  create: () => ({
    score({ candidates, out }) {
      lowerIsBetter(candidates.waiting, candidates.count, out);
    },
  }),
});
