import type { BlockHashes } from "./block-hash.ts";
import { EntryLru, isNotAfter, NEVER } from "./entry-lru.ts";
import { HolderTable } from "./holder-table.ts";

/** Blocks that an endpoint can hold when its engine reports no number (scheduling 3.10.1). */
export const DEFAULT_CAPACITY = 31_250;
/** The most pairs of block and endpoint in one index: 134 endpoints at the default capacity. */
const DEFAULT_MAX_PAIRS = 2 ** 22;
/** The most bytes that are allocated for a pair. */
const MOST_PAIR_BYTES = 112;

/** The most pairs of an index that takes at most so many bytes. */
export function pairsWithin(bytes: number = Number.POSITIVE_INFINITY): number {
  return Math.max(1, Math.min(DEFAULT_MAX_PAIRS, Math.floor(bytes / MOST_PAIR_BYTES)));
}

/** The capacity of an endpoint; the first bound that is reached counts. */
export interface IndexCapacity {
  /** From 1 up. */
  readonly blocks: number;
  /** Tokens of its blocks together, above 0; Infinity = only the number of blocks counts. */
  readonly tokens: number;
}

const SHARD_BITS = 6;
const SHARDS = 1 << SHARD_BITS;

/**
 * The prompt prefixes that each endpoint probably has in its KV cache (scheduling 3.10.4). A routed request adds its blocks.
 * Each endpoint drops its least recently used blocks first.
 *
 * Bounds: an endpoint holds at most its capacity, in blocks and in tokens. All endpoints together hold at most `maxPairs` pairs
 * of block and endpoint, in equal shares when the capacities add up to more.
 *
 * A pair takes 56 bytes: 32 in the endpoint's list, and 24 in the table, once per distinct block. A block of several endpoints
 * takes 4 + slots/8 bytes more. Arrays double, so up to twice that is allocated; an empty index takes 90 KB. A lookup costs one
 * probe per block of the longest match plus one word per block and 32 slots.
 */
export class PrefixIndex {
  readonly #maxPairs: number;
  /**
   * By the high bits of a hash. Small tables grow in small steps; the growth of a single table of 4 M pairs stops the process
   * for 50 ms.
   */
  readonly #tables = Array.from({ length: SHARDS }, () => new HolderTable());
  readonly #lists: (EntryLru | undefined)[] = [];
  #endpoints = 0;
  #size = 0;
  #alive = new Uint32Array(1);
  #gone = new Uint32Array(1);
  /** Matched blocks per slot; all zero between calls. */
  #matched = new Int32Array(32);
  /**
   * The entries that the last match found, by the place of the block; -1 = none. The request is usually added next, so that `add`
   * looks there first. Any number is allowed here, because the table compares the hash.
   */
  #found = new Int32Array(64).fill(-1);

  /** @param maxPairs from 1 up */
  constructor(maxPairs = DEFAULT_MAX_PAIRS) {
    this.#maxPairs = maxPairs;
  }

  /** Pairs of block and endpoint. */
  get size(): number {
    return this.#size;
  }

  /** Returns the number of blocks that the endpoint of `slot` probably holds. */
  blocksOf(slot: number): number {
    return this.#lists[slot]?.size ?? 0;
  }

  /** Returns how often blocks of the endpoint of `slot` were used, each block of each request once; 0 when it holds none. */
  usesOf(slot: number): number {
    return this.#lists[slot]?.touches ?? 0;
  }

  /** Number of distinct blocks. */
  get blocks(): number {
    let blocks = 0;
    for (const table of this.#tables) blocks += table.size;
    return blocks;
  }

  /** Bytes allocated. */
  get bytes(): number {
    let bytes = 0;
    for (const table of this.#tables) bytes += table.bytes;
    for (const list of this.#lists) if (list !== undefined) bytes += list.bytes;
    return bytes;
  }

  /**
   * Counts the leading blocks that each endpoint holds, summed over the prompts. The count of an endpoint ends at its first
   * missing block.
   * @param out receives the sum for endpoints[i] at i, for i below `count`
   */
  match(hashes: BlockHashes, endpoints: readonly { readonly slot: number }[], count: number, out: Float64Array): void {
    let top = 0;
    for (let i = 0; i < count; i++) top = Math.max(top, endpoints[i]!.slot);
    this.#reach(top);
    if (hashes.count > this.#found.length) this.#found = new Int32Array(2 * hashes.count);
    this.#found.fill(-1, 0, hashes.count);
    let from = 0;
    for (let prompt = 0; prompt < hashes.prompts; prompt++) {
      const end = hashes.ends[prompt]!;
      this.#matchChain(hashes, from, end, endpoints, count, (top >>> 5) + 1);
      from = end;
    }
    const matched = this.#matched;
    for (let i = 0; i < count; i++) out[i] = matched[endpoints[i]!.slot]!;
    for (let i = 0; i < count; i++) matched[endpoints[i]!.slot] = 0;
  }

  /**
   * Adds blocks to the endpoint of `slot`. Later blocks count as used before earlier ones, so that the end of a prompt is
   * dropped first and the rest is still a prefix.
   * @param blockTokens tokens in each of these blocks, above 0: their weight in the endpoint's capacity until they are added
   *   again
   * @param capacity of this endpoint; blocks above it are dropped at once
   * @param news receives the blocks that the endpoint did not have; absent = nobody asks
   * @param before receives, for each block, the turn in which the endpoint used it before; `NEVER` = it did not have the block
   * @returns how many of the blocks only a peer had added to this endpoint (`addForPeer`)
   */
  add(
    hashes: BlockHashes,
    slot: number,
    blockTokens: number,
    capacity: IndexCapacity,
    news?: BlockHashes | undefined,
    before?: Int32Array,
  ): number {
    const list = this.#lists[slot] ?? this.#open(slot);
    list.nextTurn();
    const limit = Math.min(capacity.blocks, this.#share());
    this.#shrink(list, slot, limit, capacity.tokens);
    const { low, high } = hashes;
    const found = this.#found;
    const { taken } = list;
    news?.reset(hashes.count, 0);
    for (let i = hashes.count - 1; i >= 0; i--) {
      const shard = high[i]! >>> (32 - SHARD_BITS);
      const entry = this.#tables[shard]!.hold(low[i]!, high[i]!, slot, found[i]);
      const last = list.touch((entry << SHARD_BITS) | shard, blockTokens);
      if (before !== undefined) before[i] = last;
      if (last === NEVER) {
        this.#size++;
        news?.push(low[i]!, high[i]!);
      }
      while (isOver(list, limit, capacity.tokens)) this.#evict(list, slot);
    }
    news?.reverse();
    return list.taken - taken;
  }

  /** As `add`, for blocks that a peer has placed. What this process has added itself stays its own. */
  addForPeer(
    { low, high, count }: { readonly low: Int32Array; readonly high: Int32Array; readonly count: number },
    slot: number,
    blockTokens: number,
    capacity: IndexCapacity,
  ): void {
    const list = this.#lists[slot] ?? this.#open(slot);
    list.nextTurn(true);
    const limit = Math.min(capacity.blocks, this.#share());
    this.#shrink(list, slot, limit, capacity.tokens);
    for (let i = count - 1; i >= 0; i--) {
      const shard = high[i]! >>> (32 - SHARD_BITS);
      const entry = this.#tables[shard]!.hold(low[i]!, high[i]!, slot);
      if (list.touchForPeer((entry << SHARD_BITS) | shard, blockTokens) === NEVER) this.#size++;
      while (isOver(list, limit, capacity.tokens)) this.#evict(list, slot);
    }
  }

  /** The turn of the last `add` to the endpoint of `slot`; the turns of an endpoint count up. `NEVER` = it holds nothing. */
  turnOf(slot: number): number {
    return this.#lists[slot]?.turn ?? NEVER;
  }

  /**
   * Drops the blocks that an endpoint has not used since a turn, the least recently used one first.
   * @param turn the last one whose blocks are dropped
   * @param most blocks, from 0 up
   * @returns the number of dropped blocks
   */
  dropOlder(slot: number, turn: number, most: number): number {
    const list = this.#lists[slot];
    if (list === undefined) return 0;
    let dropped = 0;
    for (; dropped < most && list.size > 0 && isNotAfter(list.oldestTurn, turn); dropped++) this.#evict(list, slot);
    if (dropped > 0) list.trim();
    return dropped;
  }

  /** Drops all blocks of the endpoint of `slot`. */
  remove(slot: number): void {
    const list = this.#lists[slot];
    if (list === undefined) return;
    while (list.size > 0) this.#evict(list, slot);
    this.#lists[slot] = undefined;
    this.#endpoints--;
  }

  #matchChain(
    hashes: BlockHashes,
    from: number,
    end: number,
    endpoints: readonly { readonly slot: number }[],
    count: number,
    words: number,
  ): void {
    if (from === end) return;
    const { low, high } = hashes;
    let table = this.#tables[high[from]! >>> (32 - SHARD_BITS)]!;
    let entry = table.find(low[from]!, high[from]!);
    if (entry < 0) return;
    const alive = this.#alive;
    const gone = this.#gone;
    const found = this.#found;
    alive.fill(0, 0, words);
    for (let i = 0; i < count; i++) {
      const slot = endpoints[i]!.slot;
      alive[slot >>> 5]! |= 1 << (slot & 31);
    }
    let at = from;
    for (;;) {
      found[at] = entry;
      const change = table.narrow(entry, alive, gone, words);
      if ((change & 2) !== 0 && at > from) this.#credit(gone, words, at - from);
      if ((change & 1) === 0) return;
      if (++at === end) break;
      table = this.#tables[high[at]! >>> (32 - SHARD_BITS)]!;
      entry = table.find(low[at]!, high[at]!);
      if (entry < 0) break;
    }
    this.#credit(alive, words, at - from);
  }

  /** Adds `blocks` to every slot of the set. */
  #credit(set: Uint32Array, words: number, blocks: number): void {
    for (let word = 0; word < words; word++) {
      let bits = set[word]!;
      while (bits !== 0) {
        const top = 31 - Math.clz32(bits);
        this.#matched[word * 32 + top]! += blocks;
        bits ^= 1 << top;
      }
    }
  }

  #open(slot: number): EntryLru {
    const list = new EntryLru();
    while (this.#lists.length <= slot) this.#lists.push(undefined);
    this.#lists[slot] = list;
    this.#endpoints++;
    // One more endpoint shares the index. The others drop blocks now, so that the bound always holds.
    const share = this.#share();
    this.#lists.forEach((other, at) => {
      if (other !== undefined) this.#shrink(other, at, share, Number.POSITIVE_INFINITY);
    });
    return list;
  }

  #share(): number {
    return Math.max(1, Math.floor(this.#maxPairs / this.#endpoints));
  }

  #shrink(list: EntryLru, slot: number, blocks: number, tokens: number): void {
    if (!isOver(list, blocks, tokens)) return;
    while (isOver(list, blocks, tokens)) this.#evict(list, slot);
    list.trim();
  }

  #evict(list: EntryLru, slot: number): void {
    const entry = list.evict();
    this.#tables[entry & (SHARDS - 1)]!.release(entry >>> SHARD_BITS, slot);
    this.#size--;
  }

  /** Makes the scratch sets wide enough for `slot`. */
  #reach(slot: number): void {
    if (slot < this.#matched.length) return;
    let slots = this.#matched.length;
    while (slots <= slot) slots *= 2;
    this.#matched = new Int32Array(slots);
    this.#alive = new Uint32Array(slots / 32);
    this.#gone = new Uint32Array(slots / 32);
  }
}

/** Whether the list is over its capacity. One block always stays, with any number of tokens. */
function isOver(list: EntryLru, blocks: number, tokens: number): boolean {
  return list.size > blocks || (list.weight > tokens && list.size > 1);
}
