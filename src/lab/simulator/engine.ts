import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { EndpointMetrics } from "../../base/inference/endpoint.ts";
import { blockHashes } from "./block-hashes.ts";
import { DueHeap } from "./due-heap.ts";
import { KvCache } from "./kv-cache.ts";
import { DEFAULT_LATENCY, type LatencyConfig, LatencyModel } from "./latency.ts";
import { finishReason, outputLength } from "./lengths.ts";
import { LoraSlots, ResidentAdapters } from "./lora.ts";
import { type EngineCounters, type ModelEngine, NO_COUNTS } from "./model-engine.ts";
import { type RefusalReason, Sequence, type SequenceListener, type SequenceSpec } from "./sequence.ts";

/** The size and speed of one engine. */
export interface EngineConfig {
  /** Sequences that run at the same time, >= 1. */
  readonly maxNumSeqs: number;
  /** The most waiting sequences, >= 0; the engine refuses further ones. */
  readonly maxWaitingQueueLength: number;
  /** Context window in tokens: prompt and answer together, >= 2. */
  readonly maxModelLen: number;
  /** Distinct LoRA adapters in the running batch, >= 1. */
  readonly maxLoras: number;
  /** Blocks of the KV cache, >= 1. */
  readonly kvCacheSize: number;
  /** Tokens per block, >= 1. */
  readonly blockSize: number;
  /** Whether the engine caches prefixes; blocks are counted either way. */
  readonly enableKvcache: boolean;
  /** Mixed into every block hash. */
  readonly hashSeed: string;
  readonly latency: LatencyConfig;
  /**
   * Tokens that are due within this many milliseconds appear together, under one timer. 0 (exact) suits virtual time. About 1
   * suits a real clock, whose timers have no finer resolution.
   */
  readonly resolution: number;
}

/** The defaults of `sluice sim`, in exact time. */
export const DEFAULT_ENGINE: EngineConfig = {
  maxNumSeqs: 16,
  maxWaitingQueueLength: 1000,
  maxModelLen: 131072,
  maxLoras: 1,
  kvCacheSize: 4096,
  blockSize: 16,
  enableKvcache: true,
  hashSeed: "",
  latency: DEFAULT_LATENCY,
  resolution: 0,
};

const NO_HASHES = new Uint32Array(0);
/** Timers longer than about 24 days overflow; waking up early is harmless. */
const LONGEST_TIMER = 2 ** 30;

/**
 * The scheduler of a vLLM-like model server (envoy-data-plane 5.3). It has a FIFO queue, a fixed number of slots, a KV cache,
 * and durations from a latency model. A request may wait for an adapter slot while others overtake it. The engine only counts
 * tokens, and owns no socket. It lives in the time of its clock, virtual or real, and holds one timer for any number of running
 * sequences. It draws all chance from `random` in the order of submission, so equal seeds and equal submissions give equal
 * answers and equal timings.
 */
export class SimEngine implements ModelEngine {
  readonly config: EngineConfig;
  readonly kv: KvCache;
  readonly lora: LoraSlots;
  readonly counters: EngineCounters = { ...NO_COUNTS };
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #observer: SequenceListener | undefined;
  readonly #residents: ResidentAdapters;
  readonly #due = new DueHeap();
  readonly #onTimer = (): void => this.#pump();
  #latency: LatencyModel;
  #nextId = 1;
  #running = 0;
  #waiting = 0;
  #head: Sequence | undefined;
  #tail: Sequence | undefined;
  #timer: Timer | undefined;
  #armedFor = 0;
  #pumping = false;

  /**
   * @param parts.config deviations from `DEFAULT_ENGINE`
   * @param parts.observer gets the events of every sequence, before the sequence's own listener
   */
  constructor(parts: {
    config?: Partial<EngineConfig>;
    clock: Clock;
    random: Random;
    observer?: SequenceListener;
  }) {
    this.config = { ...DEFAULT_ENGINE, ...parts.config };
    this.kv = new KvCache(this.config.kvCacheSize, this.config.blockSize);
    this.lora = new LoraSlots(this.config.maxLoras);
    this.#residents = new ResidentAdapters(this.config.maxLoras);
    this.#clock = parts.clock;
    this.#random = parts.random;
    this.#observer = parts.observer;
    this.#latency = new LatencyModel(this.config.latency, this.config.maxNumSeqs);
  }

  /** Sequences running, 0..maxNumSeqs. */
  get running(): number {
    return this.#running;
  }

  /** Sequences in the queue, 0..maxWaitingQueueLength. */
  get waiting(): number {
    return this.#waiting;
  }

  /** The latency in force. */
  get latency(): LatencyConfig {
    return this.#latency.config;
  }

  /** Sets the latency of all later draws. Tokens with a due time keep it. */
  setLatency(latency: LatencyConfig): void {
    this.#latency = new LatencyModel(latency, this.config.maxNumSeqs);
  }

  /** The figures that a scrape of this engine would get now. Adapter sets are shared between calls until they change. */
  snapshotMetrics(): EndpointMetrics {
    return {
      waiting: this.#waiting,
      running: this.#running,
      kvUsage: this.kv.usage,
      maxLora: this.config.maxLoras,
      loraRunning: this.lora.running,
      loraWaiting: this.lora.waiting,
      blockSize: this.config.blockSize,
      blocks: this.config.kvCacheSize,
      scrapedAt: this.#clock.now(),
    };
  }

  /**
   * Takes a prompt: it starts at once, waits, or is refused (`onReject`, state "rejected"). `submit` itself never produces
   * tokens.
   */
  submit(spec: SequenceSpec, listener: SequenceListener): Sequence {
    const c = this.config;
    const seed = spec.seed ?? this.#random.below(2 ** 32);
    const sequence = new Sequence(this.#nextId++, spec, listener, seed, NO_HASHES, this.#clock.now());
    const room = c.maxModelLen - sequence.promptTokens;
    if (room < 1 || (spec.outputTokens === undefined && (spec.maxTokens ?? 1) > room)) {
      return this.#reject(sequence, "context-length");
    }
    const startable = this.#running < c.maxNumSeqs && this.lora.fits(spec.adapter);
    if (!startable && this.#waiting >= c.maxWaitingQueueLength) return this.#reject(sequence, "queue-full");
    sequence.target = spec.outputTokens ?? outputLength(sequence.random, spec.maxTokens, room, spec.ignoreEos === true);
    if (spec.outputTokens === undefined) sequence.finishReason = finishReason(sequence.target, spec.maxTokens, room);
    if (c.enableKvcache && typeof spec.prompt !== "number") {
      const key = `${c.hashSeed}\u0000${spec.cacheKey ?? spec.adapter ?? ""}`;
      sequence.hashes = blockHashes(spec.prompt, c.blockSize, key, c.kvCacheSize);
      if (this.kv.listener !== undefined) sequence.tokens = spec.prompt;
    }
    this.#enqueue(sequence);
    this.#admit();
    return sequence;
  }

  /** Ends a waiting or running sequence and frees its slot and blocks at once; does nothing for any other. */
  abort(sequence: Sequence): void {
    if (sequence.state === "waiting") {
      this.#dequeue(sequence);
    } else if (sequence.state === "running") {
      this.#leave(sequence);
    } else {
      return;
    }
    sequence.state = "aborted";
    sequence.endedAt = this.#clock.now();
    sequence.hashes = NO_HASHES;
    sequence.tokens = undefined;
    this.counters.aborted++;
    this.#observer?.onAbort?.(sequence);
    sequence.listener.onAbort?.(sequence);
    this.#admit();
    this.#arm();
  }

  /** Empties the prefix cache and sets the counters to 0; running sequences continue. */
  reset(): void {
    this.kv.clear();
    Object.assign(this.counters, NO_COUNTS);
  }

  #reject(sequence: Sequence, reason: RefusalReason): Sequence {
    sequence.state = "rejected";
    sequence.endedAt = sequence.submittedAt;
    this.counters.rejected++;
    this.#observer?.onReject?.(sequence, reason);
    sequence.listener.onReject?.(sequence, reason);
    return sequence;
  }

  #enqueue(sequence: Sequence): void {
    sequence.before = this.#tail;
    if (this.#tail) this.#tail.after = sequence;
    else this.#head = sequence;
    this.#tail = sequence;
    this.#waiting++;
    this.lora.countWaiting(sequence.adapter, 1);
  }

  #dequeue(sequence: Sequence): void {
    if (sequence.before) sequence.before.after = sequence.after;
    else this.#head = sequence.after;
    if (sequence.after) sequence.after.before = sequence.before;
    else this.#tail = sequence.before;
    sequence.before = undefined;
    sequence.after = undefined;
    this.#waiting--;
    this.lora.countWaiting(sequence.adapter, -1);
  }

  /** Starts all sequences that can start, in the order of the queue. A sequence without an adapter slot is overtaken. */
  #admit(): void {
    while (this.#running < this.config.maxNumSeqs) {
      let sequence = this.#head;
      while (sequence && !this.lora.fits(sequence.adapter)) sequence = sequence.after;
      if (!sequence) return;
      this.#start(sequence);
    }
  }

  #start(sequence: Sequence): void {
    this.#dequeue(sequence);
    this.#running++;
    if (this.#residents.begin(sequence.adapter, this.lora)) this.counters.adapterLoads++;
    this.lora.countRunning(sequence.adapter, 1);
    sequence.state = "running";
    sequence.startedAt = this.#clock.now();
    sequence.table = this.kv.acquire(sequence.hashes, sequence.promptTokens);
    this.#tellStored(sequence);
    sequence.hashes = NO_HASHES;
    sequence.tokens = undefined;
    sequence.cachedTokens = sequence.table.cachedBlocks * this.config.blockSize;
    this.counters.prefixQueries += sequence.promptTokens;
    this.counters.prefixHits += sequence.cachedTokens;
    this.counters.promptTokens += sequence.promptTokens;
    sequence.due =
      sequence.startedAt +
      this.#latency.firstToken(
        sequence.random,
        sequence.promptTokens,
        sequence.cachedTokens,
        sequence.remotePrefill,
        this.#running,
      );
    if (sequence.stallAfter > 0) this.#due.push(sequence);
    this.#observer?.onStart?.(sequence);
    sequence.listener.onStart?.(sequence);
    this.#arm();
  }

  #tellStored({ hashes, tokens, table, adapter }: Sequence): void {
    if (tokens === undefined || table === undefined) return;
    const to = Math.min(table.blocks.length, hashes.length >> 1);
    this.kv.listener?.stored({ hashes, tokens, adapter, from: table.cachedBlocks, to });
  }

  /** Frees slot, adapter and blocks. */
  #leave(sequence: Sequence): void {
    this.#due.remove(sequence);
    this.#running--;
    this.lora.countRunning(sequence.adapter, -1);
    this.#residents.end(sequence.adapter);
    if (sequence.table) this.kv.release(sequence.table);
    sequence.table = undefined;
  }

  #pump(): void {
    this.#timer = undefined;
    this.#pumping = true;
    const now = this.#clock.now();
    const until = now + this.config.resolution;
    try {
      for (let sequence = this.#due.first; sequence && sequence.due <= until; sequence = this.#due.first) {
        this.#advance(sequence, now, until);
      }
    } finally {
      this.#pumping = false;
      this.#arm();
    }
  }

  /** Produces every due token of the first sequence in the heap. The due time of each token counts from the token before it. */
  #advance(sequence: Sequence, now: number, until: number): void {
    const limit = Math.min(sequence.target, sequence.stallAfter);
    let count = 0;
    do {
      count++;
      if (sequence.produced + count === limit) break;
      sequence.due += this.#latency.nextToken(sequence.random, this.#running);
    } while (sequence.due <= until);
    this.#growBlocks(sequence, count);
    sequence.produced += count;
    this.counters.generationTokens += count;
    if (sequence.produced === limit) this.#due.remove(sequence);
    else this.#due.firstMoved();
    if (Number.isNaN(sequence.firstTokenAt)) sequence.firstTokenAt = now;
    this.#observer?.onToken?.(sequence, count);
    sequence.listener.onToken?.(sequence, count);
    sequence.lastTokenAt = now;
    if (sequence.state === "running" && sequence.produced === sequence.target) this.#finish(sequence, now);
  }

  #growBlocks(sequence: Sequence, count: number): void {
    const { blockSize } = this.config;
    const before = sequence.promptTokens + sequence.produced;
    for (let n = Math.ceil((before + count) / blockSize) - Math.ceil(before / blockSize); n > 0; n--) {
      this.kv.grow(sequence.table!);
    }
  }

  #finish(sequence: Sequence, now: number): void {
    this.#leave(sequence);
    sequence.state = "finished";
    sequence.endedAt = now;
    this.counters.finished++;
    this.#observer?.onFinish?.(sequence);
    sequence.listener.onFinish?.(sequence);
    this.#admit();
  }

  /** Sets the one timer to the first due token. */
  #arm(): void {
    if (this.#pumping) return;
    const first = this.#due.first;
    if (this.#timer && first && this.#armedFor <= first.due) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    if (!first) return;
    this.#armedFor = first.due;
    this.#timer = this.#clock.after(Math.min(LONGEST_TIMER, first.due - this.#clock.now()), this.#onTimer);
  }
}
