import { z } from "zod";
import { defineFilter } from "../../../../base/plugin/define.ts";
import { IN_FLIGHT_REQUESTS } from "../../../../base/plugin/keys.ts";

/**
 * Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2016) has this bound for its bins; here it says how long
 * affinity may hold on. It is a share of the pool's load, so it fits every model and machine, and it needs no metrics.
 */
export const boundedLoadFilter = defineFilter({
  type: "bounded-load-filter",
  describe:
    "Keeps endpoints that, with this request, would have no more than their fair share of the requests in flight from this process, times a factor, or a few in any case.",
  parameters: z.strictObject({
    meanLoadFactor: z
      .number()
      .gt(1, { error: "must be greater than 1: at 1 no endpoint could have more than its fair share" })
      .default(1.4)
      .describe("How many times the mean load an endpoint may have, above 1; rounded up to whole requests."),
    minRequests: z
      .int()
      .min(1)
      .default(4)
      .describe("Requests that an endpoint may have in any case, at least 1: of few, chance alone makes loads uneven."),
    inFlightLoadProducerName: z
      .string()
      .default("")
      .describe("Instance name of the producer of in-flight load; empty = the only one."),
  }),
  requires: [IN_FLIGHT_REQUESTS],
  create: ({ meanLoadFactor, minRequests }) => ({
    filter({ candidates, keep }) {
      const inFlight = candidates.column(IN_FLIGHT_REQUESTS);
      const { count } = candidates;
      let total = 1;
      for (let i = 0; i < count; i++) total += inFlight[i]!;
      // Above the mean, so there is always an endpoint below it.
      const bound = Math.max(minRequests, Math.ceil((meanLoadFactor * total) / count));
      for (let i = 0; i < count; i++) if (inFlight[i]! + 1 > bound) keep[i] = 0;
    },
  }),
});
