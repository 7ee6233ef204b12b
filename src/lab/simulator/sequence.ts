import { SeededRandom } from "../../base/clock/random.ts";
import type { BlockTable } from "./kv-cache.ts";
import type { FinishReason } from "./lengths.ts";

/** The reasons why the engine refuses a sequence. */
export type RefusalReason = "queue-full" | "context-length";

/** One prompt to answer. */
export interface SequenceSpec {
  /** Token ids, or just their number: then the prompt is never found in, or kept in, the prefix cache. */
  readonly prompt: Uint32Array | number;
  /**
   * Token ids of the answer, if they are known: an engine that caches generated tokens then finds them in a later prompt. They
   * do not determine the length of the answer. Neither `answer` nor `prompt` may change after the call.
   */
  readonly answer?: Uint32Array | undefined;
  /** LoRA adapter; absent = base model. */
  readonly adapter?: string | undefined;
  /** Prefixes are shared only between equal keys; default: the adapter's name. */
  readonly cacheKey?: string | undefined;
  /** The most tokens to generate, >= 1. */
  readonly maxTokens?: number | undefined;
  /** Generate exactly `maxTokens` (or as many as fit the context). */
  readonly ignoreEos?: boolean | undefined;
  /** Generate exactly this many, >= 1, ending with "stop": an answer that is already known (echo). */
  readonly outputTokens?: number | undefined;
  /** Makes lengths and durations of this sequence repeatable; default: drawn from the engine's chance. */
  readonly seed?: number | undefined;
  /** The prompt's KV blocks come from another server: transfer time instead of prefill time. */
  readonly remotePrefill?: boolean | undefined;
  /** Produce no token after this many, but keep the slot until an abort (a fault for tests of other programs). */
  readonly stallAfter?: number | undefined;
}

/** Receives the events of a sequence: for its owner, or for an observer of the whole engine. Calls are synchronous. */
export interface SequenceListener {
  /** The sequence left the queue. `submit` may call it. */
  onStart?(sequence: Sequence): void;
  /** `count` >= 1 more tokens appeared; more than 1 only if they were due at the same time. */
  onToken?(sequence: Sequence, count: number): void;
  /** All tokens appeared; slot and blocks are free again. */
  onFinish?(sequence: Sequence): void;
  /** `abort` ended the sequence; slot and blocks are free again. */
  onAbort?(sequence: Sequence): void;
  /** The engine refused the sequence; `submit` calls it. */
  onReject?(sequence: Sequence, reason: RefusalReason): void;
}

export type SequenceState = "waiting" | "running" | "finished" | "aborted" | "rejected";

/** One prompt in the engine. Only the engine changes it. */
export class Sequence {
  readonly id: number;
  readonly listener: SequenceListener;
  readonly adapter: string | undefined;
  readonly promptTokens: number;
  readonly maxTokens: number | undefined;
  /** The seed of this sequence's chance; a text generator may use it, too. */
  readonly seed: number;
  state: SequenceState = "waiting";
  /** Tokens produced so far. */
  produced = 0;
  /** Tokens it will produce; 0 while rejected. */
  target = 0;
  finishReason: FinishReason = "stop";
  /** Prompt tokens found in the prefix cache; known from `onStart` on. */
  cachedTokens = 0;
  /** Monotonic milliseconds; NaN before the event. `endedAt` is the end of any kind. */
  readonly submittedAt: number;
  startedAt = Number.NaN;
  firstTokenAt = Number.NaN;
  lastTokenAt = Number.NaN;
  endedAt = Number.NaN;

  /** Fields that only the engine uses. */
  readonly random: SeededRandom;
  readonly remotePrefill: boolean;
  readonly stallAfter: number;
  hashes: Uint32Array;
  /** The tokens of the prompt, until it starts, for an engine that tells of its cache. */
  tokens: Uint32Array | undefined;
  table: BlockTable | undefined;
  /** Due time of the next token, and index in the heap of running sequences (-1 = not in it). */
  due = 0;
  heapAt = -1;
  /** Neighbours in the queue. */
  before: Sequence | undefined;
  after: Sequence | undefined;

  constructor(
    id: number,
    spec: SequenceSpec,
    listener: SequenceListener,
    seed: number,
    hashes: Uint32Array,
    submittedAt: number,
  ) {
    this.id = id;
    this.listener = listener;
    this.adapter = spec.adapter;
    this.promptTokens = typeof spec.prompt === "number" ? spec.prompt : spec.prompt.length;
    this.maxTokens = spec.maxTokens;
    this.seed = seed;
    this.random = new SeededRandom(seed);
    this.remotePrefill = spec.remotePrefill ?? false;
    this.stallAfter = spec.stallAfter ?? Number.POSITIVE_INFINITY;
    this.hashes = hashes;
    this.submittedAt = submittedAt;
  }
}
