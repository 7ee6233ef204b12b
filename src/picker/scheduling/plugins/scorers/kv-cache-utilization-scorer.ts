import { defineScorer } from "../../../../base/plugin/define.ts";

/** scheduling 3.9 */
export const kvCacheUtilizationScorer = defineScorer({
  type: "kv-cache-utilization-scorer",
  describe: "Prefers endpoints whose KV cache is less used: the score is the free share.",
  create: () => ({
    score({ candidates, out }) {
      const { kvUsage, count } = candidates;
      for (let i = 0; i < count; i++) out[i] = Number.isNaN(kvUsage[i]) ? 1 : 1 - kvUsage[i]!;
    },
  }),
});
