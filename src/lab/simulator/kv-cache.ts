/** The blocks of one sequence, in prompt order. The owner passes it to `release` at the end. */
export interface BlockTable {
  readonly blocks: number[];
  /** Number of leading blocks that were cached when the sequence started. */
  readonly cachedBlocks: number;
}

/** Blocks of a prompt that came into the cache: [from, to). */
export interface StoredBlocks {
  /** Two words for each full block of the prompt. */
  readonly hashes: Uint32Array;
  readonly tokens: Uint32Array;
  readonly from: number;
  readonly to: number;
  readonly adapter: string | undefined;
}

/** Hears of the contents of a cache. */
export interface CacheListener {
  stored(blocks: StoredBlocks): void;
  /** A block lost its contents, by both words of its hash. */
  removed(first: number, second: number): void;
  /** All blocks lost their contents. */
  cleared(): void;
}

const NONE = -1;

/**
 * The KV cache of one engine: a fixed number of blocks, shared between sequences with the same prefix. Blocks are pinned while
 * a sequence runs. Afterwards they stay in least-recently-used order until their room is needed (envoy-data-plane 5.3, "KV
 * cache"). All data is in typed arrays of fixed size.
 *
 * A sequence takes the blocks that are available: when every block is pinned, the rest of its prompt is not cached. It never
 * waits for blocks, because in this model a request waits for a slot or for an adapter only (D-63).
 */
export class KvCache {
  /** Number of blocks. */
  readonly capacity: number;
  /** Tokens per block. */
  readonly blockSize: number;
  readonly #first: Uint32Array;
  readonly #second: Uint32Array;
  readonly #hashed: Uint8Array;
  readonly #pins: Int32Array;
  /** Hash table: head block of each bucket, and the next block of the same bucket. */
  readonly #bucket: Int32Array;
  readonly #chain: Int32Array;
  /** Circular list of unpinned cached blocks, least recently used first; index `capacity` is its anchor. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  readonly #free: Int32Array;
  #freeCount: number;
  #pinned = 0;
  /** Told of blocks that lose their contents; the engine tells it of those that get some. */
  listener: CacheListener | undefined;

  /**
   * @param capacity blocks, >= 1
   * @param blockSize tokens per block, >= 1
   */
  constructor(capacity: number, blockSize: number) {
    this.capacity = capacity;
    this.blockSize = blockSize;
    this.#first = new Uint32Array(capacity);
    this.#second = new Uint32Array(capacity);
    this.#hashed = new Uint8Array(capacity);
    this.#pins = new Int32Array(capacity);
    this.#bucket = new Int32Array(2 ** Math.ceil(Math.log2(capacity * 2))).fill(NONE);
    this.#chain = new Int32Array(capacity).fill(NONE);
    this.#next = new Int32Array(capacity + 1);
    this.#previous = new Int32Array(capacity + 1);
    this.#next[capacity] = capacity;
    this.#previous[capacity] = capacity;
    this.#free = new Int32Array(capacity);
    for (let i = 0; i < capacity; i++) this.#free[i] = capacity - 1 - i;
    this.#freeCount = capacity;
  }

  /** Share of blocks that running sequences hold, 0..1; cached but unpinned blocks count as free, as in vLLM. */
  get usage(): number {
    return this.#pinned / this.capacity;
  }

  /** Blocks pinned by running sequences. */
  get pinned(): number {
    return this.#pinned;
  }

  /** Blocks with a prefix that no running sequence holds. */
  get idle(): number {
    return this.capacity - this.#pinned - this.#freeCount;
  }

  /**
   * Pins the blocks of a prompt: the longest cached prefix of `hashes`, then new blocks for the rest.
   * @param hashes two words per full block, from `blockHashes`; empty = no lookup and no caching
   * @param promptTokens length of the whole prompt, including the part after the last full block
   */
  acquire(hashes: Uint32Array, promptTokens: number): BlockTable {
    const blocks: number[] = [];
    const hashedBlocks = hashes.length >> 1;
    let cachedBlocks = 0;
    while (cachedBlocks < hashedBlocks) {
      const block = this.#find(hashes[2 * cachedBlocks]!, hashes[2 * cachedBlocks + 1]!);
      if (block === NONE) break;
      if (this.#pins[block]!++ === 0) {
        this.#unlink(block);
        this.#pinned++;
      }
      blocks.push(block);
      cachedBlocks++;
    }
    const wanted = Math.ceil(promptTokens / this.blockSize);
    for (let i = cachedBlocks; i < wanted; i++) {
      const block = this.#take();
      if (block === NONE) break;
      if (i < hashedBlocks) this.#remember(block, hashes[2 * i]!, hashes[2 * i + 1]!);
      blocks.push(block);
    }
    return { blocks, cachedBlocks };
  }

  /** Adds one block for generated tokens; does nothing when every block is pinned. */
  grow(table: BlockTable): void {
    const block = this.#take();
    if (block !== NONE) table.blocks.push(block);
  }

  /**
   * Unpins a sequence's blocks. Prefix blocks without another holder stay cached, the last one first in the order of eviction.
   * A chain then loses its tail before its head, and without its head the rest cannot be found.
   */
  release(table: BlockTable): void {
    for (let i = table.blocks.length - 1; i >= 0; i--) {
      const block = table.blocks[i]!;
      if (--this.#pins[block]! > 0) continue;
      this.#pinned--;
      if (this.#hashed[block] === 1) this.#linkLast(block);
      else this.#free[this.#freeCount++] = block;
    }
    table.blocks.length = 0;
  }

  /** Empties the prefix index. Running sequences keep their blocks, but no other sequence finds them. */
  clear(): void {
    this.listener?.cleared();
    this.#bucket.fill(NONE);
    this.#hashed.fill(0);
    for (let block = this.#next[this.capacity]!; block !== this.capacity; block = this.#next[this.capacity]!) {
      this.#unlink(block);
      this.#free[this.#freeCount++] = block;
    }
  }

  #find(first: number, second: number): number {
    let block = this.#bucket[first & (this.#bucket.length - 1)]!;
    while (block !== NONE && !(this.#first[block] === first && this.#second[block] === second)) {
      block = this.#chain[block]!;
    }
    return block;
  }

  /** A pinned block without contents; evicts the least recently used prefix if necessary. NONE when all blocks are pinned. */
  #take(): number {
    let block: number;
    if (this.#freeCount > 0) {
      block = this.#free[--this.#freeCount]!;
    } else {
      block = this.#next[this.capacity]!;
      if (block === this.capacity) return NONE;
      this.#unlink(block);
      this.#forget(block);
      this.listener?.removed(this.#first[block]!, this.#second[block]!);
    }
    this.#pins[block] = 1;
    this.#pinned++;
    return block;
  }

  #remember(block: number, first: number, second: number): void {
    const at = first & (this.#bucket.length - 1);
    this.#first[block] = first;
    this.#second[block] = second;
    this.#hashed[block] = 1;
    this.#chain[block] = this.#bucket[at]!;
    this.#bucket[at] = block;
  }

  #forget(block: number): void {
    const at = this.#first[block]! & (this.#bucket.length - 1);
    if (this.#bucket[at] === block) {
      this.#bucket[at] = this.#chain[block]!;
    } else {
      let before = this.#bucket[at]!;
      while (this.#chain[before] !== block) before = this.#chain[before]!;
      this.#chain[before] = this.#chain[block]!;
    }
    this.#hashed[block] = 0;
  }

  #linkLast(block: number): void {
    const last = this.#previous[this.capacity]!;
    this.#next[last] = block;
    this.#previous[block] = last;
    this.#next[block] = this.capacity;
    this.#previous[this.capacity] = block;
  }

  #unlink(block: number): void {
    const before = this.#previous[block]!;
    const after = this.#next[block]!;
    this.#next[before] = after;
    this.#previous[after] = before;
  }
}
