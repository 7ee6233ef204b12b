import { LoraSlots, ResidentAdapters } from "../lora.ts";
import type { EngineCounters } from "../model-engine.ts";
import { Sequence } from "../sequence.ts";
import { BlockPool, NO_BLOCK } from "./block-pool.ts";
import type { BatchingConfig, StepLoad } from "./config.ts";

/** The head of the queue that did not fit, and the condition for a new attempt. */
interface Blocked {
  readonly sequence: BatchSequence;
  readonly changes: number;
}

/**
 * Forms batches as the scheduler of vLLM V1 does (`Scheduler.schedule`, first come first served, chunked prefill). Running
 * sequences take tokens of the budget in the order of admission. A sequence that finds no free block preempts the one admitted
 * last. The rest of the budget starts waiting sequences. The scheduler has no clock and calls no listener.
 */
export class BatchScheduler {
  readonly pool: BlockPool;
  readonly lora: LoraSlots;
  readonly queue = new WaitingQueue();
  /** The load of the latest batch. */
  readonly load: StepLoad = {
    prefillTokens: 0,
    attention: 0,
    contextTokens: 0,
    decoding: 0,
    sequences: 0,
    adapterLoads: 0,
  };
  /** The sequences that started with the latest batch, for the first time or again. */
  readonly started: BatchSequence[] = [];
  readonly #config: BatchingConfig;
  readonly #counters: EngineCounters;
  readonly #residents: ResidentAdapters;
  /** In order of admission. Sequences that have left stay in it until the next batch is formed. */
  readonly #running: BatchSequence[] = [];
  #runningCount = 0;
  readonly #found: number[] = [];
  #blocked: Blocked | undefined;
  #budget = 0;

  constructor(config: BatchingConfig, counters: EngineCounters) {
    this.#config = config;
    this.#counters = counters;
    this.pool = new BlockPool(config.kvBlocks);
    this.lora = new LoraSlots(config.maxLoras);
    this.#residents = new ResidentAdapters(config.maxLoras);
  }

  /** Running sequences, in the batch or not. */
  get runningCount(): number {
    return this.#runningCount;
  }

  /** The running sequences in order of admission. Some may have left; their states say so. */
  get running(): readonly BatchSequence[] {
    return this.#running;
  }

  enqueue(sequence: BatchSequence): void {
    this.queue.pushLast(sequence);
    this.lora.countWaiting(sequence.adapter, 1);
  }

  /** Takes a waiting sequence out of the queue. */
  dequeue(sequence: BatchSequence): void {
    this.queue.remove(sequence);
    this.lora.countWaiting(sequence.adapter, -1);
  }

  /** Frees the blocks and the adapter of a running sequence. The caller must change its state. */
  leave(sequence: BatchSequence): void {
    this.#runningCount--;
    this.lora.countRunning(sequence.adapter, -1);
    this.#residents.end(sequence.adapter);
    this.pool.release(sequence.blocks);
    sequence.room = 0;
    sequence.findable = 0;
    sequence.computed = 0;
    sequence.scheduled = 0;
  }

  /** Forms the next batch: sets `load`, and `scheduled` of each running sequence. */
  form(): void {
    this.#sweep();
    const { load } = this;
    this.started.length = 0;
    do {
      load.prefillTokens = 0;
      load.attention = 0;
      load.contextTokens = 0;
      load.decoding = 0;
      load.sequences = 0;
      load.adapterLoads = 0;
      this.#budget = this.#config.tokenBudget;
      // No sequence starts in a step that preempts one. If that leaves no work (all sequences that hold blocks have stalled),
      // the next step is formed at once.
      if (this.#formRunning()) {
        this.#formWaiting();
        break;
      }
    } while (load.sequences === 0);
  }

  #sweep(): void {
    const running = this.#running;
    if (running.length === this.#runningCount) return;
    let kept = 0;
    for (const sequence of running) if (sequence.state === "running") running[kept++] = sequence;
    running.length = kept;
  }

  /** Returns whether all running sequences could continue: false = one was preempted. */
  #formRunning(): boolean {
    const running = this.#running;
    let undisturbed = true;
    for (let i = 0; i < running.length && this.#budget > 0; i++) {
      const sequence = running[i]!;
      const wanted = sequence.known - sequence.computed;
      if (wanted === 0) continue;
      const tokens = Math.min(wanted, this.#budget);
      const beyond = sequence.computed + tokens - sequence.room;
      if (beyond > 0) {
        const blocks = Math.ceil(beyond / this.#config.blockSize);
        while (blocks > this.pool.available && i < running.length) {
          this.#preempt(running.pop()!);
          undisturbed = false;
        }
        if (i === running.length) break;
        this.#take(sequence, blocks);
      }
      this.#schedule(sequence, tokens);
    }
    return undisturbed;
  }

  #formWaiting(): void {
    const { maxNumSeqs } = this.#config;
    let refused: string | undefined;
    let sequence = this.queue.head;
    while (sequence && this.#budget > 0 && this.#runningCount < maxNumSeqs) {
      const { adapter, after }: BatchSequence = sequence;
      if (adapter !== undefined && (adapter === refused || !this.lora.fits(adapter))) {
        refused = adapter;
      } else if (!this.#start(sequence)) {
        return;
      }
      sequence = after;
    }
  }

  /** Starts a waiting sequence if there are enough blocks for the tokens that the budget allows. */
  #start(sequence: BatchSequence): boolean {
    const { blockSize } = this.#config;
    const whole = sequence.comesComputed || sequence.known <= this.#budget;
    if (whole && this.#blocked?.sequence === sequence && this.#blocked.changes === this.pool.changes) return false;
    const hits = this.#lookUp(sequence);
    const cached = hits * blockSize;
    // Keys and values that come from another server need blocks and no computation, but for the last token.
    const there = sequence.comesComputed ? sequence.known - 1 : cached;
    const tokens = Math.min(sequence.known - there, this.#budget);
    const blocks = Math.ceil((there + tokens) / blockSize) - hits;
    let needed = blocks;
    for (const block of this.#found) if (!this.pool.held(block)) needed++;
    if (needed > this.pool.available) {
      // The whole rest needs one block per block of tokens, less the found blocks that other sequences hold. Only events that
      // `changes` counts can lower this need or free blocks. When only a part is to start, evictions might do so, too.
      this.#blocked = whole ? { sequence, changes: this.pool.changes } : undefined;
      return false;
    }
    this.#blocked = undefined;
    this.dequeue(sequence);
    for (const block of this.#found) {
      this.pool.pin(block);
      sequence.blocks.push(block);
    }
    sequence.room = cached;
    sequence.findable = hits;
    sequence.computed = there;
    sequence.prompt = sequence.known;
    sequence.state = "running";
    this.#running.push(sequence);
    this.#runningCount++;
    if (this.#residents.begin(sequence.adapter, this.lora)) {
      this.load.adapterLoads++;
      this.#counters.adapterLoads++;
    }
    this.lora.countRunning(sequence.adapter, 1);
    this.started.push(sequence);
    this.#take(sequence, blocks);
    this.#schedule(sequence, tokens);
    return true;
  }

  /**
   * Writes the blocks of the longest known prefix into `#found` and returns their number. The last token is always computed,
   * because the next token is sampled from it. So when the whole prompt is known, its last block is not used.
   */
  #lookUp({ hashes, known }: BatchSequence): number {
    const found = this.#found;
    found.length = 0;
    const most = Math.min(hashes.length >> 1, Math.floor((known - 1) / this.#config.blockSize));
    while (found.length < most) {
      const block = this.pool.find(hashes[2 * found.length]!, hashes[2 * found.length + 1]!);
      if (block === NO_BLOCK) break;
      found.push(block);
    }
    return found.length;
  }

  #take(sequence: BatchSequence, blocks: number): void {
    for (let i = 0; i < blocks; i++) sequence.blocks.push(this.pool.take());
    sequence.room += blocks * this.#config.blockSize;
  }

  #schedule(sequence: BatchSequence, tokens: number): void {
    const { load } = this;
    const { computed } = sequence;
    sequence.scheduled = tokens;
    this.#budget -= tokens;
    load.sequences++;
    if (computed < sequence.prompt) {
      load.prefillTokens += tokens;
      load.attention += tokens * (computed + tokens / 2);
    } else {
      load.decoding++;
      load.contextTokens += sequence.known;
    }
    this.#remember(sequence, computed + tokens);
  }

  /**
   * A block can be found from the moment a step is formed that fills it, as in vLLM (`KVCacheManager.allocate_slots`).
   * Sequences that start with the same step share it already, as each layer writes keys and values before it reads them.
   * @param upTo tokens that the step completes
   */
  #remember(sequence: BatchSequence, upTo: number): void {
    const { hashes, blocks } = sequence;
    const full = Math.min(hashes.length >> 1, Math.floor(upTo / this.#config.blockSize));
    for (let i = sequence.findable; i < full; i++) this.pool.remember(blocks[i]!, hashes[2 * i]!, hashes[2 * i + 1]!);
    if (full > sequence.findable) sequence.findable = full;
  }

  /**
   * Puts the sequence back at the head of the queue. All its tokens that the cache does not hold by then are computed again.
   */
  #preempt(sequence: BatchSequence): void {
    this.leave(sequence);
    sequence.state = "waiting";
    sequence.known = sequence.promptTokens + sequence.produced;
    sequence.preemptions++;
    this.#counters.preemptions++;
    this.queue.pushFirst(sequence);
    this.lora.countWaiting(sequence.adapter, 1);
  }
}

/** Waiting sequences in a linked list: first come, first served, but preempted sequences come first. */
class WaitingQueue {
  #head: BatchSequence | undefined;
  #tail: BatchSequence | undefined;
  #length = 0;

  get head(): BatchSequence | undefined {
    return this.#head;
  }

  get length(): number {
    return this.#length;
  }

  pushLast(sequence: BatchSequence): void {
    sequence.before = this.#tail;
    if (this.#tail) this.#tail.after = sequence;
    else this.#head = sequence;
    this.#tail = sequence;
    this.#length++;
  }

  pushFirst(sequence: BatchSequence): void {
    sequence.after = this.#head;
    if (this.#head) this.#head.before = sequence;
    else this.#tail = sequence;
    this.#head = sequence;
    this.#length++;
  }

  /** Only for a sequence in the queue. */
  remove(sequence: BatchSequence): void {
    if (sequence.before) sequence.before.after = sequence.after;
    else this.#head = sequence.after;
    if (sequence.after) sequence.after.before = sequence.before;
    else this.#tail = sequence.before;
    sequence.before = undefined;
    sequence.after = undefined;
    this.#length--;
  }
}

/** A sequence with the additional data of a batching engine. */
export class BatchSequence extends Sequence {
  /** The blocks that it holds, in the order of its tokens, and the number of tokens that fit them. */
  readonly blocks: number[] = [];
  room = 0;
  /** Number of its blocks that other sequences can find. */
  findable = 0;
  /** Number of tokens whose keys and values are in its blocks. */
  computed = 0;
  /** Number of its tokens now. When all are computed, the next token appears. */
  known = 0;
  /** The value of `known` at its latest start. Until so many tokens are computed, the sequence is in its prefill. */
  prompt = 0;
  /** Number of its tokens in the current step. */
  scheduled = 0;
  /** Number of tokens that it produces before it finishes or stalls. */
  limit = 0;
  /** Number of times that it lost its blocks. */
  preemptions = 0;

  /** Whether another server computes its prompt. After a preemption it has to be computed here. */
  get comesComputed(): boolean {
    return this.remotePrefill && this.preemptions === 0;
  }

  declare before: BatchSequence | undefined;
  declare after: BatchSequence | undefined;
}
