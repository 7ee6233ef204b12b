import { Rejection } from "../../base/inference/outcomes.ts";
import type { Parity } from "../../base/inference/parity.ts";

/** How the time of a request in flow control ends: the values of the label `outcome` (scheduling 6.7). */
export type QueueOutcome =
  | "Dispatched"
  | "RejectedCapacity"
  | "RejectedNoEndpoints"
  | "RejectedOther"
  | "EvictedTTL"
  | "EvictedNoEndpoints"
  | "EvictedContextCancelled"
  | "EvictedOther"
  | "EvictedQueuePressure"
  | "EvictedPriority";

/** The label `outcome` of the enqueue histogram for a request that is queued. */
export const NOT_YET_FINALIZED = "NotYetFinalized";

/** The rejection of each outcome in which a request does not go on: the text for Envoy's clients and the plain one. */
const REJECTIONS = {
  RejectedCapacity: [
    "saturated",
    "request rejected pre-queue: queue at capacity",
    "the model servers are busy and the queue is full; send the request again later",
  ],
  RejectedNoEndpoints: [
    "no_endpoints",
    "no endpoints available: request rejected pre-queue: no endpoints available",
    "no model server is running and the queue is full; send the request again later",
  ],
  RejectedOther: [
    "shutting_down",
    "flow controller shutting down: request rejected pre-queue: flow controller is not running",
    "the gateway is shutting down; send the request again",
  ],
  EvictedTTL: [
    "ttl_expired",
    "request timed out in queue: request evicted from queue: request TTL expired",
    "no model server had room within the time that a request may wait; send the request again later",
  ],
  EvictedNoEndpoints: [
    "no_endpoints",
    "request timed out in queue and no endpoints are available: request evicted from queue: request TTL expired",
    "no model server was running within the time that a request may wait; send the request again later",
  ],
  EvictedContextCancelled: [
    "context_cancelled",
    "client disconnected: request evicted from queue: request context cancelled",
    "the client left while the request waited",
  ],
  EvictedOther: [
    "shutting_down",
    "flow controller shutting down: request evicted from queue: flow controller is not running",
    "the gateway is shutting down; send the request again",
  ],
  EvictedQueuePressure: [
    "evicted_queue_pressure",
    "request evicted from queue: another flow had a smaller share of the full queue",
    "the queue is full and holds too many of your requests; send the request again later",
  ],
  EvictedPriority: [
    "evicted_priority",
    "request evicted from queue: a request of higher priority needed its place",
    "the queue is full and a request of higher priority took the place; send the request again later",
  ],
} as const satisfies Record<
  Exclude<QueueOutcome, "Dispatched">,
  readonly [ConstructorParameters<typeof Rejection>[0], string, string]
>;

/**
 * Returns the rejection for an outcome.
 * @param retryAfter seconds after which another try makes sense
 * @param parity with v1.5 the status is 503 where a wait is over (scheduling 6.10)
 */
export function rejectionOf(
  outcome: Exclude<QueueOutcome, "Dispatched">,
  retryAfter?: number,
  parity: Parity = "",
): Rejection {
  const [reason, detail, plain] = REJECTIONS[outcome];
  const status = parity === "v1.5" && reason === "ttl_expired" ? "queue_timeout" : reason;
  return new Rejection(status, detail, plain, retryAfter);
}
