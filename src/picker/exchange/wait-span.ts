import type { OutcomeReason, Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { Span, SpanAttributes } from "../../base/telemetry/tracing.ts";
import type { Ticket } from "../flowcontrol/flow-control.ts";
import type { QueueOutcome } from "../flowcontrol/queue-outcomes.ts";
import { spanText } from "./span-text.ts";

/** The outcome of a request that waited, by the reason of its refusal (scheduling 6.7). */
const OUTCOMES: Partial<Readonly<Record<OutcomeReason, QueueOutcome>>> = {
  saturated: "RejectedCapacity",
  ttl_expired: "EvictedTTL",
  no_endpoints: "EvictedNoEndpoints",
  context_cancelled: "EvictedContextCancelled",
  shutting_down: "EvictedOther",
  evicted_queue_pressure: "EvictedQueuePressure",
  evicted_priority: "EvictedPriority",
};

/**
 * Makes the span of a wait, once the wait is over: so no path leaves the span open, and a waiting request keeps none in memory.
 * A refusal marks the span as failed. A client that has left is no failure.
 * @param parent span of the request
 * @param refusal undefined = dispatched
 */
export function showWait(
  parent: Span,
  { id, targetModel, priority, body }: InferenceRequest,
  { enqueuedAt, wait }: Ticket,
  refusal: Rejection | undefined,
): void {
  const { band, fairnessId, behind, waitedMs, saturation, ceiling } = wait;
  const outcome = refusal === undefined ? "Dispatched" : (OUTCOMES[refusal.reason] ?? refusal.reason);
  const attributes: SpanAttributes = {
    "gen_ai.request.id": spanText(id),
    "gen_ai.request.model": spanText(targetModel),
    "sluice.flow_control.band": band,
    "sluice.flow_control.priority": priority,
    "sluice.flow_control.fairness_id": spanText(fairnessId),
    "sluice.flow_control.outcome": outcome,
    "sluice.flow_control.behind": behind,
    "sluice.flow_control.bytes": body.length,
    // Only what let a request go is known.
    ...(refusal === undefined
      ? { "sluice.flow_control.saturation": saturation, "sluice.flow_control.ceiling": ceiling }
      : {}),
  };
  const isFailure = refusal !== undefined && refusal.reason !== "context_cancelled";
  parent.past("flow_control_wait", enqueuedAt, enqueuedAt + waitedMs, attributes, isFailure ? outcome : undefined);
}
