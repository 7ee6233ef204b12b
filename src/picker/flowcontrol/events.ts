import type { InferenceRequest } from "../../base/inference/request.ts";
import type { NOT_YET_FINALIZED, QueueOutcome } from "./queue-outcomes.ts";
import type { ReclaimEvents } from "./reclaim.ts";

/** The labels of a request in metrics. */
export interface FlowLabels {
  readonly fairnessId: string;
  /** The priority of the request itself, also where another band holds it. */
  readonly priority: number;
  readonly model: string;
  readonly targetModel: string;
}

/** What a request adds to the gauges of its queue. */
export interface QueuedSize {
  /** Of its body. */
  readonly bytes: number;
  /** Of its prompts, estimated. */
  readonly tokens: number;
}

/** What metrics and logs learn. Times are in milliseconds. All calls for one request get the same `flow`. */
export interface FlowControlEvents extends ReclaimEvents {
  /** A request has entered, and is queued or refused. `left` follows, once. */
  entered(flow: InferenceRequest, size: QueuedSize): void;
  /** A request has left. @param waited since it entered */
  left(flow: InferenceRequest, size: QueuedSize, outcome: QueueOutcome, waited: number): void;
  /**
   * The pool had room and no request waited, so a request went on at once. Nothing else is called for it.
   * @param took from its entry
   * @param now monotonic milliseconds
   */
  passed(flow: InferenceRequest, size: QueuedSize, took: number, now: number): void;
  /** The capacity check and the insertion took `took`. */
  enqueued(flow: InferenceRequest, outcome: QueueOutcome | typeof NOT_YET_FINALIZED, took: number): void;
  cycled(took: number): void;
  /**
   * The priority has no band, because nothing names it or because there are too many bands: another band holds the request. Called
   * for each such request.
   */
  strangePriority(priority: number, band: number): void;
  /** A policy, the detector or a waiter failed; flow control goes on without its answer. */
  failed(policy: string, error: unknown): void;
}

/** For users of flow control that count nothing. */
export const NO_EVENTS: FlowControlEvents = {
  entered() {},
  left() {},
  passed() {},
  enqueued() {},
  cycled() {},
  strangePriority() {},
  revoked() {},
  revocationEnded() {},
  failed() {},
};
