/**
 * What one step of a batching engine takes, milliseconds:
 * `base + prefill x P + attention x A + context x K + sequence x S` with P = prompt tokens computed in the step (of a
 * sequence that starts again after a preemption also the tokens it had generated),
 * A = sum over the prompt chunks of chunk length x (tokens before it + half of it), K = tokens of context of the sequences that
 * generate in it, each its prompt and its answer so far, S = sequences in it. A sequence whose prompt is completed by the
 * step counts for P and A, not for K, although its first token comes at the end of it.
 */
export interface StepCost {
  readonly base: number;
  readonly prefill: number;
  readonly attention: number;
  readonly context: number;
  readonly sequence: number;
}

/** The size and speed of an engine with continuous batching. */
export interface BatchingConfig {
  readonly cost: StepCost;
  /** Tokens that one step computes at most, prompts and answers together, >= 1. */
  readonly tokenBudget: number;
  /** Sequences in a batch, >= 1. */
  readonly maxNumSeqs: number;
  /** Sequences that may wait, >= 0; one more is refused. */
  readonly maxWaitingQueueLength: number;
  /** Context window in tokens: prompt and answer together, >= 2; what the KV cache holds counts if that is less. */
  readonly maxModelLen: number;
  /** Blocks of the KV cache, >= 1, and tokens per block, >= 1. */
  readonly kvBlocks: number;
  readonly blockSize: number;
  /** Whether prefixes are kept and found again. */
  readonly prefixCache: boolean;
  /** Adapters that are loaded at a time, >= 1; the least recently used one that no sequence runs on makes room. */
  readonly maxLoras: number;
  /** Milliseconds that the step waits in which an adapter is loaded, for each one. */
  readonly loraLoadMs: number;
}
