import type { BlockHashes } from "./block-hash.ts";
import { EntryLru, isNotAfter, MARK, NEVER } from "./entry-lru.ts";
import { HolderTable } from "./holder-table.ts";
import { PeerBlocks } from "./peer-blocks.ts";

/** Blocks that an endpoint can hold when its engine reports no number (scheduling 3.10.1). */
export const DEFAULT_CAPACITY = 31_250;
/** The most pairs of block and endpoint in one index: 134 endpoints at the default capacity. */
const DEFAULT_MAX_PAIRS = 2 ** 22;
/** The most bytes that are allocated for a pair. */
const MOST_PAIR_BYTES = 120;

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

/** Blocks that a peer has placed. */
export interface PeerPlacement {
  /** The halves of the hashes: `count` of each, beginning at `from`, in the order of the prompt. */
  readonly low: Int32Array;
  readonly high: Int32Array;
  readonly from: number;
  readonly count: number;
}

/** With less of its capacity in use, an endpoint drops nothing soon. */
const ROOMY = 7 / 8;
/** A list has at least 2^3 parts: an order of use that is wrong by one of them hardly matters. */
const PART_BITS = 3;

/** Blocks of a short prompt. */
const FEW = 32;

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
  /** What only peers have placed. A mark in the list of an endpoint has the place of each placement. Undefined until there is one. */
  #peers: PeerBlocks | undefined;
  #endpoints = 0;
  /** Pairs that this process has placed. */
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
  /** What the last match was of, and by the place of the block whether peers hold it at an endpoint that holds all before it. */
  #last: BlockHashes | undefined;
  #ofPeers = new Uint8Array(64);

  /** @param maxPairs from 1 up */
  constructor(maxPairs = DEFAULT_MAX_PAIRS) {
    this.#maxPairs = maxPairs;
  }

  /** Pairs of block and endpoint. */
  get size(): number {
    return this.#size + (this.#peers?.size ?? 0);
  }

  /** Returns the number of blocks that the endpoint of `slot` probably holds. */
  blocksOf(slot: number): number {
    return (this.#lists[slot]?.size ?? 0) + (this.#peers?.blocksOf(slot) ?? 0);
  }

  /** Returns how often blocks of the endpoint of `slot` were used, each block of each request once; 0 when it holds none. */
  usesOf(slot: number): number {
    return this.#lists[slot]?.touches ?? 0;
  }

  /** Number of distinct blocks, without those that only peers have placed. */
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
    return bytes + (this.#peers?.bytes ?? 0);
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
    if (hashes.count > this.#found.length) {
      this.#found = new Int32Array(2 * hashes.count);
      this.#ofPeers = new Uint8Array(2 * hashes.count);
    }
    this.#last = hashes;
    this.#forget(hashes.count);
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

  /** Forgets the first `blocks` places of the last match. Calls into native code cost more than the loop for few. */
  #forget(blocks: number): void {
    const found = this.#found;
    const ofPeers = this.#ofPeers;
    if (blocks > FEW) {
      found.fill(-1, 0, blocks);
      ofPeers.fill(0, 0, blocks);
      return;
    }
    for (let i = 0; i < blocks; i++) {
      found[i] = -1;
      ofPeers[i] = 0;
    }
  }

  /**
   * Adds blocks to the endpoint of `slot`. Later blocks count as used before earlier ones, so that the end of a prompt is dropped
   * first and the rest is still a prefix. After a match of the same object, its hashes must be the same.
   * @param blockTokens tokens in each of these blocks, above 0: their weight in the endpoint's capacity until they are added
   *   again
   * @param capacity of this endpoint; blocks above it are dropped at once
   * @param news receives the blocks that the endpoint did not have; absent = nobody asks
   * @param before receives, for each block, the turn in which this process used it there before; `NEVER` = in none
   * @returns how many of the blocks only peers had placed there
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
    const isMatched = hashes === this.#last;
    let fromPeers = 0;
    news?.reset(hashes.count, 0);
    for (let i = hashes.count - 1; i >= 0; i--) {
      const shard = high[i]! >>> (32 - SHARD_BITS);
      const entry = this.#tables[shard]!.hold(low[i]!, high[i]!, slot, found[i]);
      const last = list.touch((entry << SHARD_BITS) | shard, blockTokens);
      if (before !== undefined) before[i] = last;
      if (last === NEVER) {
        this.#size++;
        if ((!isMatched || this.#ofPeers[i] === 1) && this.#peers?.take(low[i]!, high[i]!, slot) === true) fromPeers++;
        else news?.push(low[i]!, high[i]!);
      }
      while (this.#isOver(list, slot, limit, capacity.tokens)) this.#evict(list, slot);
    }
    news?.reverse();
    return fromPeers;
  }

  /**
   * Adds what a peer has placed at the endpoint of `slot`. Its beginning, as far as this process has placed it there, too, counts as
   * used just now. The rest is one placement, which the endpoint forgets as a whole.
   * @param from,count the part of `low` and `high`, in the order of the prompt
   * @param blockTokens as in `add`
   * @param capacity of this endpoint; of a longer prompt the beginning counts
   */
  addOfPeer(
    { low, high, from, count }: PeerPlacement,
    slot: number,
    blockTokens: number,
    capacity: IndexCapacity,
  ): void {
    const list = this.#lists[slot] ?? this.#open(slot);
    const limit = Math.min(capacity.blocks, this.#share());
    const most = Math.min(count, limit, Math.max(1, Math.floor(capacity.tokens / blockTokens)));
    this.#peers ??= new PeerBlocks();
    const peers = this.#peers;
    peers.begin(slot, blockTokens);
    // The beginning that this process has placed, too. What follows a block that it has not placed is none of its own.
    let own = from;
    for (; own < from + most; own++) if (!this.#refresh(list, low[own]!, high[own]!)) break;
    for (let i = own - 2; i >= from; i--) this.#refresh(list, low[i]!, high[i]!);
    let isNew = false;
    peers.fetch(low, high, own, from + most);
    for (let i = own; i < from + most; i++) {
      const put = peers.put(low[i]!, high[i]!, slot);
      if (put === "new") isNew = true;
      else if (put === "full") this.#touch(list, slot, low[i]!, high[i]!, blockTokens);
    }
    list.usedByPeer(most);
    if (isNew) {
      peers.end(slot);
      list.addMark();
    }
    this.#shrink(list, slot, limit, capacity.tokens);
  }

  /** Adds a block of a peer as an own one. */
  #touch(list: EntryLru, slot: number, low: number, high: number, blockTokens: number): void {
    if (list.turn === NEVER) list.nextTurn();
    const shard = high >>> (32 - SHARD_BITS);
    const entry = this.#tables[shard]!.hold(low, high, slot);
    if (list.touch((entry << SHARD_BITS) | shard, blockTokens) === NEVER) this.#size++;
  }

  /** Makes an own block of an endpoint the most recent one. @returns whether it is one */
  #refresh(list: EntryLru, low: number, high: number): boolean {
    const shard = high >>> (32 - SHARD_BITS);
    const entry = this.#tables[shard]!.find(low, high);
    return entry >= 0 && list.refresh((entry << SHARD_BITS) | shard);
  }

  /** The turn of the last `add` to the endpoint of `slot`; the turns of an endpoint count up. `NEVER` = it holds nothing. */
  turnOf(slot: number): number {
    return this.#lists[slot]?.turn ?? NEVER;
  }

  /**
   * An endpoint without room drops the blocks first that were not used for long. There, two uses count as one while their turns differ
   * only in this many low bits: the span of the list then has 8 to 16 parts.
   * @returns the number of low bits; -1 = the endpoint has room for all of its blocks, so their order does not matter
   */
  useBits(slot: number, capacity: IndexCapacity): number {
    const list = this.#lists[slot];
    if (list === undefined || list.length === 0) return -1;
    const room = ROOMY * Math.min(capacity.blocks, this.#share());
    const weight = list.weight + (this.#peers?.weightOf(slot) ?? 0);
    if (this.blocksOf(slot) < room && weight < ROOMY * capacity.tokens) return -1;
    const span = (list.turn - list.oldestTurn) | 0;
    return Math.max(0, 31 - Math.clz32(Math.max(1, span)) - PART_BITS);
  }

  /**
   * Drops the blocks that an endpoint has not used since a turn, the least recently used one first.
   * @param turn the last one whose blocks are dropped
   * @param most blocks, from 0 up; a placement of a peer is dropped as a whole
   * @returns the number of dropped blocks
   */
  dropOlder(slot: number, turn: number, most: number): number {
    const list = this.#lists[slot];
    if (list === undefined) return 0;
    const before = this.blocksOf(slot);
    const dropped = (): number => before - this.blocksOf(slot);
    while (dropped() < most && list.length > 0 && isNotAfter(list.oldestTurn, turn)) this.#evict(list, slot);
    if (dropped() > 0) list.trim();
    return dropped();
  }

  /** Drops all blocks of the endpoint of `slot`. */
  remove(slot: number): void {
    const list = this.#lists[slot];
    if (list === undefined) return;
    while (list.length > 0) this.#evict(list, slot);
    this.#peers?.remove(slot);
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
    const { low, high } = hashes;
    const alive = this.#alive;
    const gone = this.#gone;
    for (let word = 0; word < words; word++) alive[word] = 0;
    for (let i = 0; i < count; i++) {
      const slot = endpoints[i]!.slot;
      alive[slot >>> 5]! |= 1 << (slot & 31);
    }
    let at = from;
    for (; at < end; at++) {
      const change = this.#narrow(low[at]!, high[at]!, at, words);
      if ((change & 2) !== 0 && at > from) this.#credit(gone, words, at - from);
      if ((change & 1) === 0) return;
    }
    this.#credit(alive, words, at - from);
  }

  /** Splits `#alive` as `HolderTable.narrow` does, by the block at a place. @returns the same bits */
  #narrow(low: number, high: number, at: number, words: number): number {
    const alive = this.#alive;
    const gone = this.#gone;
    const table = this.#tables[high >>> (32 - SHARD_BITS)]!;
    const entry = table.find(low, high);
    let change = 2;
    if (entry >= 0) {
      this.#found[at] = entry;
      change = table.narrow(entry, alive, gone, words);
    } else {
      for (let word = 0; word < words; word++) {
        gone[word] = alive[word]!;
        alive[word] = 0;
      }
    }
    if ((change & 2) === 0 || this.#peers?.keep(low, high, gone, alive, words) !== true) return change;
    this.#ofPeers[at] = 1;
    return 3;
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
    if (!this.#isOver(list, slot, blocks, tokens)) return;
    while (this.#isOver(list, slot, blocks, tokens)) this.#evict(list, slot);
    list.trim();
  }

  /** Whether an endpoint is over its capacity. One block always stays, with any number of tokens. */
  #isOver(list: EntryLru, slot: number, blocks: number, tokens: number): boolean {
    const peers = this.#peers;
    if (peers === undefined) return list.size > blocks || (list.weight > tokens && list.size > 1);
    const size = list.size + peers.blocksOf(slot);
    return list.length > 0 && (size > blocks || (list.weight + peers.weightOf(slot) > tokens && size > 1));
  }

  #evict(list: EntryLru, slot: number): void {
    const entry = list.evict();
    if (entry === MARK) {
      this.#peers!.forget(slot);
      return;
    }
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
