import { z } from "zod";
import { defineScorer } from "../../../../base/plugin/define.ts";
import { IN_FLIGHT_TOKENS, UNCACHED_TOKENS } from "../../../../base/plugin/keys.ts";

/** 128 requests of 32 Ki tokens. */
const DEFAULT_THRESHOLD = 128 * 32 * 1024;

const parameters = z.strictObject({
  queueThresholdTokens: z
    .number()
    .default(DEFAULT_THRESHOLD)
    .transform((value) => (value > 0 ? value : DEFAULT_THRESHOLD))
    .describe("Tokens at which the score reaches 0; 0 or less counts as 4194304."),
  inFlightLoadProducerName: z
    .string()
    .default("")
    .describe("Instance name of the producer of in-flight load; empty = the only one."),
});

/** scheduling 3.9 */
export const tokenLoadScorer = defineScorer({
  type: "token-load-scorer",
  describe:
    "Prefers endpoints with fewer tokens in flight from this process, counting what this request would make them compute.",
  parameters,
  requires: [IN_FLIGHT_TOKENS, UNCACHED_TOKENS],
  create: ({ queueThresholdTokens }) => ({
    score({ candidates, out }) {
      const inFlight = candidates.column(IN_FLIGHT_TOKENS);
      const uncached = candidates.column(UNCACHED_TOKENS);
      for (let i = 0; i < candidates.count; i++) {
        const tokens = inFlight[i]! + uncached[i]!;
        out[i] = tokens > 0 ? 1 - Math.min(tokens, queueThresholdTokens) / queueThresholdTokens : 1;
      }
    },
  }),
});
