import { z } from "zod";
import { defineFilter } from "../../../../base/plugin/define.ts";
import { IN_FLIGHT_REQUESTS } from "../../../../base/plugin/keys.ts";
import type { Candidates } from "../../../../base/plugin/kinds.ts";

const METRICS = ["active-requests", "running-requests", "waiting-queue", "kv-cache-utilization"] as const;

const condition = z.strictObject({ metric: z.enum(METRICS), maxValue: z.number() });

/**
 * scheduling 3.15. A value that only some candidates lack becomes the worst of the others. A value that all candidates lack
 * counts as 0.
 */
export const utilizationFilter = defineFilter({
  type: "utilization-filter",
  describe: "Keeps the endpoints whose values are all at or below their limits.",
  parameters: z.strictObject({
    conditions: z
      .array(condition)
      .min(1, { error: "must list at least one condition, such as {metric: waiting-queue, maxValue: 10}" })
      .describe(
        "Limits, `{metric, maxValue}` each; metric `active-requests` (in flight from this process), `running-requests`, `waiting-queue` or `kv-cache-utilization` (0 to 1).",
      ),
    fallbackOnEmpty: z
      .boolean()
      .default(false)
      .describe("If no endpoint is left: true = keep all, false = refuse the request."),
  }),
  requires: [IN_FLIGHT_REQUESTS],
  create: ({ conditions, fallbackOnEmpty }) => ({
    filter({ candidates, keep }) {
      const { count } = candidates;
      for (const { metric, maxValue } of conditions) {
        const values = columnOf(metric, candidates);
        for (let i = 0; i < count; i++) if ((Number.isNaN(values[i]) ? 0 : values[i]!) > maxValue) keep[i] = 0;
      }
      if (!fallbackOnEmpty) return;
      for (let i = 0; i < count; i++) if (keep[i] !== 0) return;
      keep.fill(1, 0, count);
    },
  }),
});

function columnOf(metric: (typeof METRICS)[number], candidates: Candidates): Float64Array {
  switch (metric) {
    case "active-requests":
      return candidates.column(IN_FLIGHT_REQUESTS);
    case "running-requests":
      return candidates.running;
    case "waiting-queue":
      return candidates.waiting;
    case "kv-cache-utilization":
      return candidates.kvUsage;
  }
}

/**
 * The bound of consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2016), used here to limit affinity. The
 * bound is a share of the pool's load. So it fits every model and machine, and it needs no metrics.
 */
export const boundedLoadFilter = defineFilter({
  type: "bounded-load-filter",
  describe:
    "Keeps the endpoints whose requests in flight from this process, this request included, stay within the fair share times a factor. A few requests are always allowed.",
  parameters: z.strictObject({
    meanLoadFactor: z
      .number()
      .gt(1, { error: "must be greater than 1: with 1, no endpoint could have more than its fair share" })
      .default(1.4)
      .describe("Highest load of an endpoint as a multiple of the mean load, above 1; rounded up to whole requests."),
    minRequests: z
      .int()
      .min(1)
      .default(4)
      .describe(
        "Requests that an endpoint may always have, at least 1. With few requests, loads are uneven by chance.",
      ),
    inFlightLoadProducerName: z
      .string()
      .default("")
      .describe("Instance name of the producer of in-flight load; empty = the only producer."),
  }),
  requires: [IN_FLIGHT_REQUESTS],
  create: ({ meanLoadFactor, minRequests }) => ({
    filter({ candidates, keep }) {
      const inFlight = candidates.column(IN_FLIGHT_REQUESTS);
      const { count } = candidates;
      let total = 1;
      for (let i = 0; i < count; i++) total += inFlight[i]!;
      // The bound is above the mean, so at least one endpoint is always below it.
      const bound = Math.max(minRequests, Math.ceil((meanLoadFactor * total) / count));
      for (let i = 0; i < count; i++) if (inFlight[i]! + 1 > bound) keep[i] = 0;
    },
  }),
});
