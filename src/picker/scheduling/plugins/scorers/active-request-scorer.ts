import { z } from "zod";
import { defineScorer } from "../../../../base/plugin/define.ts";
import { IN_FLIGHT_REQUESTS } from "../../../../base/plugin/keys.ts";

const parameters = z.strictObject({
  idleThreshold: z
    .number()
    .default(0)
    .transform((value) => Math.max(0, value))
    .describe("Up to this many requests in flight an endpoint counts as idle; negative = 0."),
  maxBusyScore: z
    .number()
    .default(1)
    .transform((value) => (value >= 0 && value <= 1 ? value : 1))
    .describe("The most a busy endpoint can score, 0 to 1; a value outside counts as 1."),
  inFlightLoadProducerName: z
    .string()
    .default("")
    .describe("Instance name of the producer of in-flight load; empty = the only one."),
  requestTimeout: z.unknown().optional().describe("Accepted for older configurations, ignored."),
});

/** scheduling 3.9 */
export const activeRequestScorer = defineScorer({
  type: "active-request-scorer",
  describe: "Prefers endpoints with fewer requests in flight from this process.",
  parameters,
  requires: [IN_FLIGHT_REQUESTS],
  create: ({ idleThreshold, maxBusyScore }) => ({
    score({ candidates, out }) {
      const inFlight = candidates.column(IN_FLIGHT_REQUESTS);
      const { count } = candidates;
      let most = 0;
      for (let i = 0; i < count; i++) if (inFlight[i]! > most) most = inFlight[i]!;
      for (let i = 0; i < count; i++)
        out[i] = inFlight[i]! <= idleThreshold ? 1 : ((most - inFlight[i]!) / most) * maxBusyScore;
    },
  }),
});
