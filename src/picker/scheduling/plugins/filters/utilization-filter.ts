import { z } from "zod";
import { defineFilter } from "../../../../base/plugin/define.ts";
import { IN_FLIGHT_REQUESTS } from "../../../../base/plugin/keys.ts";
import type { Candidates } from "../../../../base/plugin/kinds.ts";

const METRICS = ["active-requests", "running-requests", "waiting-queue", "kv-cache-utilization"] as const;

const condition = z.strictObject({ metric: z.enum(METRICS), maxValue: z.number() });

/**
 * scheduling 3.15. A value that only some candidates lack is the worst of the others', as everywhere; one that nobody knows
 * counts as 0.
 */
export const utilizationFilter = defineFilter({
  type: "utilization-filter",
  describe: "Keeps endpoints none of whose values is above its limit.",
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
      .describe("Keep all where none would be left; otherwise the request is refused then."),
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
