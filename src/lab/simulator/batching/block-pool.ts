import type { BlockListener } from "../model-engine.ts";

/** No block. */
export const NO_BLOCK = -1;

/** Words of a record: two for the hash, one for the next block of the same bucket, one for whether the block has contents. */
const WORDS = 4;
const SECOND = 1;
const CHAIN = 2;
const HASHED = 3;

/**
 * The blocks of a KV cache as vLLM keeps them. One queue holds all blocks without a holder, with or without contents, the one
 * released first at its head. A table finds blocks with contents, held or not. A counter for each block counts its holders. A
 * block loses its contents when it is taken from the queue, not before. All data is in typed arrays of fixed size.
 */
export class BlockPool {
  /** Number of blocks. */
  readonly capacity: number;
  readonly #holders: Int32Array;
  /**
   * Hash table: head block of each bucket, and a record for each block, with the next one of the same bucket. The block
   * remembered first is in front. The lookup of the 450 blocks of a prompt is most of the cost of a request. Nearly all of that
   * is waiting for memory, so the data of one lookup is in one place.
   */
  readonly #bucket: Int32Array;
  readonly #record: Int32Array;
  /** The queue, circular; index `capacity` is its anchor. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  #queued: number;
  #idle = 0;
  #changes = 0;
  /** Called for contents that come and go. */
  onChange: BlockListener | undefined;

  /** @param capacity blocks, >= 1 */
  constructor(capacity: number) {
    this.capacity = capacity;
    this.#holders = new Int32Array(capacity);
    this.#bucket = new Int32Array(2 ** Math.ceil(Math.log2(capacity * 2))).fill(NO_BLOCK);
    this.#record = new Int32Array(WORDS * capacity);
    this.#next = new Int32Array(capacity + 1);
    this.#previous = new Int32Array(capacity + 1);
    for (let block = 0; block <= capacity; block++) {
      this.#next[block] = block === capacity ? 0 : block + 1;
      this.#previous[block] = block === 0 ? capacity : block - 1;
    }
    this.#queued = capacity;
  }

  /** Number of blocks that `take` can return. */
  get available(): number {
    return this.#queued;
  }

  /** Blocks that running sequences hold. */
  get pinned(): number {
    return this.capacity - this.#queued;
  }

  /** Blocks with contents that no running sequence holds. */
  get idle(): number {
    return this.#idle;
  }

  /** Share of blocks that running sequences hold, 0..1. Cached blocks without a holder count as free, as in vLLM. */
  get usage(): number {
    return this.pinned / this.capacity;
  }

  /**
   * Counts the events that may help a sequence that did not fit: released blocks, remembered contents, and the loss of contents
   * that two blocks hold (another sequence may hold the other block). While the count stays the same, a sequence that did not
   * fit still does not fit.
   */
  get changes(): number {
    return this.#changes;
  }

  /** The block with these contents, the one remembered first when there are several; NO_BLOCK when there is none. */
  find(first: number, second: number): number {
    const record = this.#record;
    let block = this.#bucket[first & (this.#bucket.length - 1)]!;
    while (block !== NO_BLOCK) {
      const at = WORDS * block;
      if (record[at] === (first | 0) && record[at + SECOND] === (second | 0)) return block;
      block = record[at + CHAIN]!;
    }
    return NO_BLOCK;
  }

  /** Whether any sequence holds the block. */
  held(block: number): boolean {
    return this.#holders[block]! > 0;
  }

  /** Adds one holder to a found block. */
  pin(block: number): void {
    if (this.#holders[block]!++ > 0) return;
    this.#unlink(block);
    this.#idle--;
  }

  /** Returns an empty block from the head of the queue; only while `available` > 0. */
  take(): number {
    const block = this.#next[this.capacity]!;
    this.#unlink(block);
    if (this.#record[WORDS * block + HASHED] === 1) {
      this.#idle--;
      this.#forget(block);
    }
    this.#holders[block] = 1;
    return block;
  }

  /** Sets the contents of a held block that had none. Another block may have the same contents. */
  remember(block: number, first: number, second: number): void {
    const record = this.#record;
    record[WORDS * block] = first;
    record[WORDS * block + SECOND] = second;
    record[WORDS * block + CHAIN] = NO_BLOCK;
    record[WORDS * block + HASHED] = 1;
    const at = first & (this.#bucket.length - 1);
    let last = this.#bucket[at]!;
    if (last === NO_BLOCK) {
      this.#bucket[at] = block;
    } else {
      for (let next = last; next !== NO_BLOCK; next = record[WORDS * next + CHAIN]!) last = next;
      record[WORDS * last + CHAIN] = block;
    }
    this.#changes++;
    this.onChange?.(first, second, true);
  }

  /**
   * Removes one holder from each block of a sequence, in the order of its tokens, and empties the list. Blocks without a holder
   * go to the end of the queue, the last block first. A chain then loses its tail before its head, and without its head the
   * rest cannot be found.
   */
  release(blocks: number[]): void {
    this.#changes++;
    for (let i = blocks.length - 1; i >= 0; i--) {
      const block = blocks[i]!;
      if (--this.#holders[block]! > 0) continue;
      this.#idle += this.#record[WORDS * block + HASHED]!;
      this.#link(block);
    }
    blocks.length = 0;
  }

  /** Empties all blocks, as a restart does. Sequences keep the blocks that they hold, but no other sequence finds them. */
  clear(): void {
    for (let block = 0; block < this.capacity; block++)
      if (this.#record[WORDS * block + HASHED] === 1) this.#forget(block);
    this.#idle = 0;
    this.#changes++;
  }

  #forget(block: number): void {
    const record = this.#record;
    const first = record[WORDS * block]!;
    const second = record[WORDS * block + SECOND]!;
    const after = record[WORDS * block + CHAIN]!;
    const at = first & (this.#bucket.length - 1);
    if (this.#bucket[at] === block) {
      this.#bucket[at] = after;
    } else {
      let before = this.#bucket[at]!;
      while (record[WORDS * before + CHAIN] !== block) before = record[WORDS * before + CHAIN]!;
      record[WORDS * before + CHAIN] = after;
    }
    record[WORDS * block + HASHED] = 0;
    this.onChange?.(first, second, false);
    for (let twin = after; twin !== NO_BLOCK; twin = record[WORDS * twin + CHAIN]!) {
      if (record[WORDS * twin] === first && record[WORDS * twin + SECOND] === second) this.#changes++;
    }
  }

  #link(block: number): void {
    const last = this.#previous[this.capacity]!;
    this.#next[last] = block;
    this.#previous[block] = last;
    this.#next[block] = this.capacity;
    this.#previous[this.capacity] = block;
    this.#queued++;
  }

  #unlink(block: number): void {
    const before = this.#previous[block]!;
    const after = this.#next[block]!;
    this.#next[before] = after;
    this.#previous[after] = before;
    this.#queued--;
  }
}
