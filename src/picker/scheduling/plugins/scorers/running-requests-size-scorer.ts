import { defineScorer } from "../../../../base/plugin/define.ts";
import { lowerIsBetter } from "./lower-is-better.ts";

/** scheduling 3.9 */
export const runningRequestsSizeScorer = defineScorer({
  type: "running-requests-size-scorer",
  describe: "Prefers endpoints with fewer running requests, relative to the other candidates.",
  create: () => ({
    score({ candidates, out }) {
      lowerIsBetter(candidates.running, candidates.count, out);
    },
  }),
});
