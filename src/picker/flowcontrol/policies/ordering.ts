import type { HeaderList } from "../../../base/inference/headers.ts";
import { defineOrderingPolicy } from "../../../base/plugin/define.ts";

/** scheduling 6.6. Equal ranks leave in the order of arrival. */
export const fcfsOrderingPolicy = defineOrderingPolicy({
  type: "fcfs-ordering-policy",
  describe: "First come, first served.",
  create: () => ({ rank: () => 0 }),
});

/** scheduling 6.6 */
export const edfOrderingPolicy = defineOrderingPolicy({
  type: "edf-ordering-policy",
  describe:
    "The request that expires first goes first. Requests without a time to live are last, in the order of their arrival.",
  create: () => ({ rank: ({ enqueuedAt, ttl }) => enqueuedAt + ttl }),
});

/** The present name of the header and its alias; the present one wins (scheduling 6.6). */
const GOALS = ["x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"] as const;
/** A whole number as Go reads it. */
const WHOLE = /^[+-]?\d+$/;
/** Go keeps durations as signed 64-bit nanoseconds. */
const MAX_GOAL_MS = Math.floor(2 ** 63 / 1e6);

/** scheduling 6.6 */
export const sloDeadlineOrderingPolicy = defineOrderingPolicy({
  type: "slo-deadline-ordering-policy",
  describe:
    "The request with the earliest deadline for its first token goes first. The header `x-llm-d-slo-ttft-ms` (or `x-slo-ttft-ms`) has the goal in milliseconds after arrival. Requests without a valid goal are last, in the order of their arrival.",
  headers: () => GOALS,
  create: () => ({ rank: ({ request, receivedAt }) => receivedAt + goalOf(request.headers) }),
});

/** Returns the goal of a request in milliseconds, 0 or more; Infinity without a valid one. */
function goalOf(headers: HeaderList): number {
  const text = (headers.get(GOALS[0]) ?? headers.get(GOALS[1]))?.trim() ?? "";
  const goal = WHOLE.test(text) ? Number(text) : Number.NaN;
  return goal >= 0 && goal <= MAX_GOAL_MS ? goal : Number.POSITIVE_INFINITY;
}
