import { SeededRandom } from "../../base/clock/random.ts";
import type { BlockTable } from "./kv-cache.ts";
import type { FinishReason } from "./lengths.ts";

/** Why the engine does not take a sequence. */
export type RefusalReason = "queue-full" | "context-length";

/** One prompt to be answered. */
export interface SequenceSpec {
  /** Token ids, or just their number: then nothing of it is ever found in, or kept in, the prefix cache. */
  readonly prompt: Uint32Array | number;
  /**
   * Token ids of the answer, as far as they are known: then an engine that keeps generated tokens finds them again in a
   * later prompt. It says nothing about how long the answer gets. Nobody may change it, nor `prompt`, from here on.
   */
  readonly answer?: Uint32Array | undefined;
  /** LoRA adapter; absent = base model. */
  readonly adapter?: string | undefined;
  /** Prefixes are shared only between equal keys; default: the adapter's name. */
  readonly cacheKey?: string | undefined;
  /** Most tokens to generate, >= 1. */
  readonly maxTokens?: number | undefined;
  /** Generate exactly `maxTokens` (or what fits the context). */
  readonly ignoreEos?: boolean | undefined;
  /** Generate exactly this many, >= 1, ending with "stop": an answer that is already known (echo). */
  readonly outputTokens?: number | undefined;
  /** Makes lengths and durations of this sequence repeatable by itself; default: drawn from the engine's chance. */
  readonly seed?: number | undefined;
  /** The prompt's KV blocks come from another server: transfer time instead of prefill time. */
  readonly remotePrefill?: boolean | undefined;
  /** Produce nothing after this many tokens but keep the slot until aborted (a fault to test others with). */
  readonly stallAfter?: number | undefined;
}

/** What a sequence's owner, or somebody who watches the whole engine, wants to hear. Calls are synchronous. */
export interface SequenceListener {
  /** It left the queue. May come from within `submit`. */
  onStart?(sequence: Sequence): void;
  /** `count` >= 1 more tokens are there; more than 1 only if they were due at the same time. */
  onToken?(sequence: Sequence, count: number): void;
  /** All tokens are there; slot and blocks are free again. */
  onFinish?(sequence: Sequence): void;
  /** `abort` was called on it; slot and blocks are free again. */
  onAbort?(sequence: Sequence): void;
  /** Not taken; comes from within `submit`. */
  onReject?(sequence: Sequence, reason: RefusalReason): void;
}

export type SequenceState = "waiting" | "running" | "finished" | "aborted" | "rejected";

/** One prompt on its way through the engine. Everybody reads it; the engine alone changes it. */
export class Sequence {
  readonly id: number;
  readonly listener: SequenceListener;
  readonly adapter: string | undefined;
  readonly promptTokens: number;
  readonly maxTokens: number | undefined;
  /** Where this sequence's chance starts; a text generator may start from it too. */
  readonly seed: number;
  state: SequenceState = "waiting";
  /** Tokens produced so far. */
  produced = 0;
  /** Tokens it will produce; 0 while rejected. */
  target = 0;
  finishReason: FinishReason = "stop";
  /** Prompt tokens found in the prefix cache; known from `onStart` on. */
  cachedTokens = 0;
  /** Monotonic milliseconds; NaN until it happened. `endedAt` is the end of any kind. */
  readonly submittedAt: number;
  startedAt = Number.NaN;
  firstTokenAt = Number.NaN;
  lastTokenAt = Number.NaN;
  endedAt = Number.NaN;

  /** The engine's own part. */
  readonly random: SeededRandom;
  readonly remotePrefill: boolean;
  readonly stallAfter: number;
  hashes: Uint32Array;
  table: BlockTable | undefined;
  /** When the next token is due, and where it sits in the heap of those that are running (-1 = not). */
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
