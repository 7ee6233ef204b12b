import type { EndpointMetrics } from "../../base/inference/endpoint.ts";
import type { EngineCounters } from "./engine-counters.ts";
import type { Sequence, SequenceListener, SequenceSpec } from "./sequence.ts";

/** What a simulation needs of an engine, whatever its model of time. */
export interface ModelEngine {
  /** Sequences that compute, and sequences in the queue. */
  readonly running: number;
  readonly waiting: number;
  /** Since it was built or last reset. */
  readonly counters: Readonly<EngineCounters>;
  /** What a scrape would say now. */
  snapshotMetrics(): EndpointMetrics;
  /** Takes a prompt: it starts, waits, or is refused (`onReject` from within the call). Tokens never come from within it. */
  submit(spec: SequenceSpec, listener: SequenceListener): Sequence;
  /** Ends a waiting or running sequence; without effect on any other. */
  abort(sequence: Sequence): void;
}
