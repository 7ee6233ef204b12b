import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { Parity } from "../../base/inference/parity.ts";
import { type QueueOutcome, rejectionOf } from "./queue-outcomes.ts";
import { NO_STAGES, type Stages, stagesOf } from "./stages.ts";

/** Monotonic milliseconds: what the deadline of a request depends on. */
interface DeadlineParts {
  readonly enqueuedAt: number;
  /** How long the request may wait while the pool has endpoints, and while it has none; Infinity = any time. */
  readonly ttl: number;
  readonly noEndpointTtl: number;
  readonly poolEmpty: boolean;
  /** When the pool became empty, or got its first endpoint. */
  readonly poolSince: number;
}

/** What differs between releases of the reference inside flow control, as pure functions (scheduling 6.10). */
export interface FlowRules {
  /** Splits the pool. Without any stage the saturation of the whole pool counts. */
  stages(pool: readonly Endpoint[]): Stages;
  /** Whether a priority that nothing names gets a band of the template; else band 0 holds its requests. */
  readonly bandsOnDemand: boolean;
  /** Whether a full queue makes room for smaller flows and higher priorities (docs/adr/0023). */
  readonly displaces: boolean;
  /**
   * Returns the monotonic milliseconds at which a request has waited too long. Of two requests that differ in `enqueuedAt` only,
   * the later one never has the earlier deadline.
   */
  deadline(parts: DeadlineParts): number;
  /** Returns the outcome of a request that exceeds a limit. */
  full(poolEmpty: boolean): "RejectedCapacity" | "RejectedNoEndpoints";
  /** Returns the outcome of a request whose deadline is over. */
  expired(poolEmpty: boolean): "EvictedTTL" | "EvictedNoEndpoints";
  /** Returns the answer. @param retryAfter seconds after which another try makes sense */
  rejection(outcome: Exclude<QueueOutcome, "Dispatched">, retryAfter?: number): Rejection;
}

/** The rules by the release that counts; "" = those of the specification, and of `docs/adr`. */
export const FLOW_RULES: Readonly<Record<Parity, FlowRules>> = {
  "": {
    stages: stagesOf,
    bandsOnDemand: false,
    displaces: true,
    deadline: ({ enqueuedAt, ttl, noEndpointTtl, poolEmpty, poolSince }) =>
      Math.max(enqueuedAt, poolSince) + (poolEmpty ? noEndpointTtl : ttl),
    full: (poolEmpty) => (poolEmpty ? "RejectedNoEndpoints" : "RejectedCapacity"),
    expired: (poolEmpty) => (poolEmpty ? "EvictedNoEndpoints" : "EvictedTTL"),
    rejection: (outcome, retryAfter) => rejectionOf(outcome, retryAfter),
  },
  "v1.5": {
    stages: () => NO_STAGES,
    bandsOnDemand: true,
    displaces: false,
    deadline: ({ enqueuedAt, ttl }) => enqueuedAt + ttl,
    full: () => "RejectedCapacity",
    expired: () => "EvictedTTL",
    rejection: (outcome, retryAfter) => rejectionOf(outcome, retryAfter, "v1.5"),
  },
};
