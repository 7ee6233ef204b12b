import type { EndpointMetrics } from "../../base/inference/endpoint.ts";
import type { Sequence, SequenceListener, SequenceSpec } from "./sequence.ts";

/** Gets a block of the prefix cache, by the halves of its hash, and whether it came or left. */
export type BlockListener = (first: number, second: number, came: boolean) => void;

/** The interface of an engine for a simulation, with any model of time. */
export interface ModelEngine {
  /** Sequences that compute, and sequences in the queue. */
  readonly running: number;
  readonly waiting: number;
  /** Counts since the engine was built or last reset. */
  readonly counters: Readonly<EngineCounters>;
  /** The figures that a scrape would get now. */
  snapshotMetrics(): EndpointMetrics;
  /** Takes a prompt: it starts, waits, or is refused (`onReject` during the call). `submit` itself never produces tokens. */
  submit(spec: SequenceSpec, listener: SequenceListener): Sequence;
  /**
   * Calls back for each block of tokens that comes into the prefix cache or leaves it, by the halves of its hash. A block may come
   * several times, and then leaves as often. Absent = the engine does not tell.
   * @returns tokens of a block
   */
  watchBlocks?(onChange: BlockListener): number;
  /** Empties the prefix cache, as a restart does; what runs goes on. Absent = the engine cannot. */
  loseCache?(): void;
  /** Ends a waiting or running sequence; does nothing for any other. */
  abort(sequence: Sequence): void;
}

/** Counts of an engine since it was built or last reset. */
export interface EngineCounters {
  promptTokens: number;
  generationTokens: number;
  /** Prompt tokens in lookups of the prefix cache, and the found ones among them. */
  prefixQueries: number;
  prefixHits: number;
  finished: number;
  aborted: number;
  rejected: number;
  /**
   * Returns of a running sequence to the queue for lack of KV blocks; 0 for an engine whose sequences never wait for blocks.
   */
  preemptions: number;
  /** LoRA adapters that had to be loaded when a sequence started. */
  adapterLoads: number;
  /** Computed batches; 0 for an engine without batches. */
  steps: number;
}

/** The counts of an engine without work. */
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
