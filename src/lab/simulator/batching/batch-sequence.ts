import { Sequence } from "../sequence.ts";

/** A sequence with what a batching engine knows of it besides. */
export class BatchSequence extends Sequence {
  /** Blocks it holds, in the order of its tokens, and the tokens that they have room for. */
  readonly blocks: number[] = [];
  room = 0;
  /** Of its blocks, how many others can find. */
  findable = 0;
  /** Tokens whose keys and values are in its blocks. */
  computed = 0;
  /** Tokens it consists of now: once all are computed the next one appears. */
  known = 0;
  /** What `known` was when it started, last time: until so many are computed it is at its prompt. */
  prompt = 0;
  /** Tokens that the step under way computes for it. */
  scheduled = 0;
  /** Tokens it produces before it is finished, or stalls. */
  limit = 0;
  /** How often it lost its blocks. */
  preemptions = 0;
  declare before: BatchSequence | undefined;
  declare after: BatchSequence | undefined;
}
