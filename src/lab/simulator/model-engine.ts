import type { EndpointMetrics } from "../../base/inference/endpoint.ts";
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

/** What an engine has done since it was built or last reset. */
export interface EngineCounters {
  promptTokens: number;
  generationTokens: number;
  /** Prompt tokens looked up in the prefix cache, and those of them that were found. */
  prefixQueries: number;
  prefixHits: number;
  finished: number;
  aborted: number;
  rejected: number;
  /** Times that a running sequence went back to the queue for lack of KV blocks; 0 where sequences never wait for blocks. */
  preemptions: number;
  /** LoRA adapters that were not resident when a sequence started on them. */
  adapterLoads: number;
  /** Batches computed; 0 where sequences take their time each by itself. */
  steps: number;
}

/** Of an engine that has done nothing yet. */
export const NO_COUNTS: Readonly<EngineCounters> = {
  promptTokens: 0,
  generationTokens: 0,
  prefixQueries: 0,
  prefixHits: 0,
  finished: 0,
  aborted: 0,
  rejected: 0,
  preemptions: 0,
  adapterLoads: 0,
  steps: 0,
};
