import type { Clock } from "../../../base/clock/clock.ts";
import type { Random } from "../../../base/clock/random.ts";
import type { EndpointMetrics } from "../../../base/inference/endpoint.ts";
import { extendHashes, promptHashes } from "../block-hashes.ts";
import { finishReason, outputLength } from "../lengths.ts";
import { type BlockListener, type EngineCounters, type ModelEngine, NO_COUNTS } from "../model-engine.ts";
import type { RefusalReason, Sequence, SequenceListener, SequenceSpec } from "../sequence.ts";
import { BatchScheduler, BatchSequence } from "./batch-scheduler.ts";
import { type BatchingConfig, type StepLoad, stepDuration } from "./config.ts";

const NO_HASHES = new Uint32Array(0);

/** The parts of a batching engine. */
interface BatchingParts {
  readonly config: BatchingConfig;
  readonly clock: Clock;
  readonly random: Random;
  /** Gets the events of every sequence, before the sequence's own listener. */
  readonly observer?: SequenceListener | undefined;
  /** Called at the start of every step with its load (the object changes with the next step) and its milliseconds. */
  readonly onStep?: ((load: Readonly<StepLoad>, duration: number) => void) | undefined;
}

/**
 * A model server with continuous batching, modelled on vLLM V1: one step after another. A step computes a batch that is formed
 * at its start; its tokens appear at its end. Arrivals during a step are considered at its end. An idle engine starts at once
 * and holds no timer. It draws all chance from `random` in the order of submission: equal seeds and equal submissions give
 * equal times. Two things differ from vLLM. A step takes as long as its formula says, without overlap of scheduling. And a
 * prompt with remote prefill is there at once, but for its last token: the transfer takes no time.
 */
export class BatchingEngine implements ModelEngine {
  readonly config: BatchingConfig;
  readonly counters: EngineCounters = { ...NO_COUNTS };
  readonly #scheduler: BatchScheduler;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #observer: SequenceListener | undefined;
  readonly #onStep: BatchingParts["onStep"];
  readonly #onTimer = (): void => this.#end();
  /** Tokens of the longest possible sequence. */
  readonly #context: number;
  /** The sequences that the API process has, or that wait for it; and when it is free again. */
  readonly #inApi = new Set<BatchSequence>();
  #apiFreeAt = 0;
  #nextId = 1;
  /** A step is in progress, or about to begin. */
  #busy = false;
  /** Number of sequences that waited when the current batch was formed. */
  #left = 0;
  /** The figures of a scrape without its time. */
  #figures: EndpointMetrics;

  constructor(parts: BatchingParts) {
    this.config = parts.config;
    this.#scheduler = new BatchScheduler(parts.config, this.counters);
    this.#clock = parts.clock;
    this.#random = parts.random;
    this.#observer = parts.observer;
    this.#onStep = parts.onStep;
    // vLLM does not start with a context that its cache cannot hold.
    this.#context = Math.min(parts.config.maxModelLen, parts.config.kvBlocks * parts.config.blockSize);
    this.#figures = this.#figuresNow();
  }

  /** Sequences that hold blocks, 0..maxNumSeqs. */
  get running(): number {
    return this.#scheduler.runningCount;
  }

  /**
   * Sequences in the queue, and those that the API process has not passed on. With preempted sequences, the queue may exceed
   * its limit.
   */
  get waiting(): number {
    return this.#queued + this.#inApi.size;
  }

  get #queued(): number {
    return this.#scheduler.queue.length;
  }

  /** The KV cache: blocks held, kept and free. */
  get blocks(): { readonly pinned: number; readonly idle: number; readonly capacity: number } {
    return this.#scheduler.pool;
  }

  /** As in `ModelEngine`. */
  watchBlocks(onChange: BlockListener): number {
    this.#scheduler.pool.onChange = onChange;
    return this.config.blockSize;
  }

  /** As in `ModelEngine`. */
  loseCache(): void {
    this.#scheduler.pool.clear();
  }

  /**
   * The figures that a scrape of this engine would get now: as in vLLM, those at the end of the last step. Later arrivals do
   * not show until the end of the next step. With a long prompt a step takes hundreds of milliseconds. Adapter sets are shared
   * between calls until they change.
   */
  snapshotMetrics(): EndpointMetrics {
    return { ...this.#figures, scrapedAt: this.#clock.now() };
  }

  /**
   * Takes a prompt: it starts, waits for the API process, for the end of the step or for room, or is refused. The refusal is
   * "context-length" when prompt and answer together can never fit, or "queue-full". `submit` itself never produces tokens.
   */
  submit(spec: SequenceSpec, listener: SequenceListener): Sequence {
    const seed = spec.seed ?? this.#random.below(2 ** 32);
    const sequence = new BatchSequence(this.#nextId++, spec, listener, seed, NO_HASHES, this.#clock.now());
    const room = this.#context - sequence.promptTokens;
    if (sequence.promptTokens < 1 || room < (spec.outputTokens ?? spec.maxTokens ?? 1)) {
      return this.#reject(sequence, "context-length");
    }
    const { apiMs = 0, maxWaitingQueueLength } = this.config;
    if ((this.#busy || this.#inApi.size > 0) && this.waiting >= maxWaitingQueueLength)
      return this.#reject(sequence, "queue-full");
    sequence.target = spec.outputTokens ?? outputLength(sequence.random, spec.maxTokens, room, spec.ignoreEos === true);
    if (spec.outputTokens === undefined) sequence.finishReason = finishReason(sequence.target, spec.maxTokens, room);
    sequence.limit = Math.min(sequence.target, sequence.stallAfter);
    sequence.known = sequence.promptTokens;
    sequence.hashes = this.#hashesOf(spec, sequence.target);
    if (apiMs === 0) return this.#enqueue(sequence);
    const now = this.#clock.now();
    this.#apiFreeAt = Math.max(now, this.#apiFreeAt) + apiMs;
    this.#inApi.add(sequence);
    this.#clock.after(this.#apiFreeAt - now, () => {
      // An aborted sequence has left.
      if (this.#inApi.delete(sequence)) this.#enqueue(sequence);
    });
    return sequence;
  }

  #enqueue(sequence: BatchSequence): Sequence {
    this.#scheduler.enqueue(sequence);
    if (this.#busy) return sequence;
    this.#begin();
    // Only this sequence can have started: nothing has changed for the sequences that waited before.
    if (sequence.state === "waiting" && this.#queued > this.config.maxWaitingQueueLength) {
      this.#scheduler.dequeue(sequence);
      return this.#reject(sequence, "queue-full");
    }
    return sequence;
  }

  /**
   * Ends a waiting or running sequence and frees its blocks at once; does nothing for any other. The current step does not get
   * shorter.
   */
  abort(sequence: Sequence): void {
    if (!(sequence instanceof BatchSequence)) return;
    if (sequence.state === "waiting") {
      if (!this.#inApi.delete(sequence)) this.#scheduler.dequeue(sequence);
    } else if (sequence.state === "running") this.#scheduler.leave(sequence);
    else return;
    this.#close(sequence, "aborted");
    this.counters.aborted++;
    this.#observer?.onAbort?.(sequence);
    sequence.listener.onAbort?.(sequence);
    if (!this.#busy) this.#begin();
  }

  #hashesOf({ prompt, answer, cacheKey, adapter }: SequenceSpec, target: number): Uint32Array {
    if (!this.config.prefixCache || typeof prompt === "number") return NO_HASHES;
    const key = cacheKey ?? adapter ?? "";
    const { blockSize } = this.config;
    const hashes = promptHashes(prompt, blockSize, key);
    if (answer === undefined) return hashes;
    return extendHashes(hashes, prompt, answer, Math.min(answer.length, target), blockSize, key);
  }

  #reject(sequence: BatchSequence, reason: RefusalReason): Sequence {
    this.#close(sequence, "rejected");
    sequence.target = 0;
    this.counters.rejected++;
    this.#observer?.onReject?.(sequence, reason);
    sequence.listener.onReject?.(sequence, reason);
    return sequence;
  }

  #close(sequence: BatchSequence, state: "finished" | "aborted" | "rejected"): void {
    sequence.state = state;
    sequence.endedAt = this.#clock.now();
    sequence.hashes = NO_HASHES;
  }

  #begin(): void {
    const { load, started } = this.#scheduler;
    this.#scheduler.form();
    this.#left = this.#queued;
    this.#busy = load.sequences > 0;
    if (!this.#busy) {
      this.#figures = this.#figuresNow();
      return;
    }
    const duration = stepDuration(this.config.cost, load, this.config.loraLoadMs);
    this.#clock.after(duration, this.#onTimer);
    this.counters.steps++;
    this.#onStep?.(load, duration);
    const now = this.#clock.now();
    for (const sequence of started) {
      // If another sequence's listener has just ended this one, it has never started for any listener.
      if (sequence.preemptions === 0 && sequence.state === "running") this.#start(sequence, now);
    }
  }

  #start(sequence: BatchSequence, now: number): void {
    sequence.startedAt = now;
    sequence.cachedTokens = sequence.computed;
    // What another server computed is no hit of this cache.
    if (!sequence.remotePrefill) this.#countPrompt(sequence);
    this.#observer?.onStart?.(sequence);
    sequence.listener.onStart?.(sequence);
  }

  #countPrompt(sequence: BatchSequence): void {
    this.counters.promptTokens += sequence.promptTokens;
    this.counters.prefixQueries += sequence.promptTokens;
    this.counters.prefixHits += sequence.cachedTokens;
  }

  /** The end of a step: tokens appear, then the next step begins. */
  #end(): void {
    const now = this.#clock.now();
    const { running } = this.#scheduler;
    try {
      for (const sequence of running) {
        const { scheduled } = sequence;
        if (scheduled === 0) continue;
        sequence.scheduled = 0;
        sequence.computed += scheduled;
        if (sequence.computed === sequence.known && sequence.produced < sequence.limit) this.#produce(sequence, now);
      }
    } finally {
      this.#figures = this.#figuresNow();
      this.#begin();
    }
  }

  /** The current figures, without sequences that arrived after the last batch was formed. */
  #figuresNow(): EndpointMetrics {
    const { pool, lora, runningCount } = this.#scheduler;
    return {
      waiting: Math.min(this.#left, this.#queued),
      running: runningCount,
      kvUsage: pool.usage,
      maxLora: this.config.maxLoras,
      loraRunning: lora.running,
      loraWaiting: lora.waiting,
      blockSize: this.config.blockSize,
      blocks: this.config.kvBlocks,
      scrapedAt: Number.NaN,
    };
  }

  #produce(sequence: BatchSequence, now: number): void {
    sequence.produced++;
    this.counters.generationTokens++;
    // The last token is never computed, because no token follows it.
    if (sequence.produced < sequence.limit) sequence.known++;
    if (Number.isNaN(sequence.firstTokenAt)) sequence.firstTokenAt = now;
    this.#observer?.onToken?.(sequence, 1);
    sequence.listener.onToken?.(sequence, 1);
    sequence.lastTokenAt = now;
    if (sequence.produced < sequence.target || sequence.state !== "running") return;
    this.#scheduler.leave(sequence);
    this.#close(sequence, "finished");
    this.counters.finished++;
    this.#observer?.onFinish?.(sequence);
    sequence.listener.onFinish?.(sequence);
  }
}
