import { EngineBlocks, MAX_TIERS } from "./engine-blocks.ts";
import { Lanes } from "./lanes.ts";
import { ShardedHolders } from "./sharded-holders.ts";

/** Forgotten sources with so many blocks are freed at once. */
const FREED_AT_ONCE = 64;
/** With more forgotten sources than this, forgetting frees as many blocks as it adds to them, and some more. */
const MAX_LEAVING = 64;
const FREED_MORE = 256;

export interface EventIndexOptions {
  /** The weight of a block on each tier, at least one and at most 16. A block that is on several counts by the highest. */
  readonly weights: readonly number[];
  /** The most pairs of announced block and source, from 1 up. */
  readonly maxPairs: number;
  /** Secret random bits. */
  readonly key: number;
}

/** What `finish` adds to. */
export interface Matches {
  /** The sum of the weights of the leading blocks. */
  readonly weighted: Float64Array;
  /** Their number. */
  readonly blocks: Float64Array;
  /** The number of those that the engine itself has announced; absent = nobody asks. */
  readonly confirmed?: Float64Array;
}

/**
 * The blocks that each engine says it has in its KV cache (scheduling 3.14), by source: one stream of events of one endpoint. A
 * block counts for an endpoint when one of its sources has it, and all before it.
 *
 * An engine names a block by a hash of its own, and Sluice by the key of the tokens (`TokenChain`). Announcements are counted, so
 * that a block stays until each of them is taken back. Engines give equal tokens one hash. One that does not loses such blocks too
 * early.
 *
 * Memory: a pair of source and block takes 20 to 25 bytes, and a distinct block 20 to 48 in addition on each tier, once for all
 * sources. bench/kv-events.ts prints the bytes a pair of a usual pool, about 40.
 *
 * Bounds: at most `maxPairs` pairs. When they are reached, a source with more than its equal share loses blocks of its own, in no
 * order, and else the source with the most. So a publisher that announces without end takes no room from others.
 */
export class EventIndex {
  readonly #weights: readonly number[];
  /** All tiers, the highest weight first. */
  readonly #byWeight: readonly number[];
  /** Those of them that ever had a block. */
  #order: readonly number[] = [];
  readonly #maxPairs: number;
  readonly #key: number;
  readonly #tiers: (ShardedHolders | undefined)[] = [];
  readonly #lanes = new Lanes();
  /** By lane. */
  readonly #blocks: (EngineBlocks | undefined)[] = [];
  /** Lanes whose blocks go little by little. */
  readonly #leaving: number[] = [];
  #size = 0;
  #evictions = 0;
  /** The key that `keyOf` found. */
  foundLow = 0;
  foundHigh = 0;

  /** Blocks since the sets of a match last changed. */
  #run = 0;
  // The sets of a match, by word of lanes.
  #words = 1;
  /** The only tier; -1 = there are several, or none. */
  #only = -1;
  #alive = new Uint32Array(1);
  #gone = new Uint32Array(1);
  #best: Uint32Array[] = [];
  #next: Uint32Array[] = [];
  /** By lane; zeros between matches. */
  #laneWeights = new Float64Array(32);
  #laneBlocks = new Int32Array(32);
  readonly #entries = new Int32Array(MAX_TIERS);

  constructor({ weights, maxPairs, key }: EventIndexOptions) {
    this.#weights = weights;
    this.#byWeight = weights.map((_, tier) => tier).sort((a, b) => weights[b]! - weights[a]! || a - b);
    this.#maxPairs = maxPairs;
    this.#key = key;
    for (let i = 0; i < weights.length; i++) {
      this.#best.push(new Uint32Array(1));
      this.#next.push(new Uint32Array(1));
    }
  }

  /** The most pairs. */
  get maxPairs(): number {
    return this.#maxPairs;
  }

  /** Pairs of source and announced block. */
  get size(): number {
    return this.#size;
  }

  /** Pairs that had to go because the index was full. */
  get evictions(): number {
    return this.#evictions;
  }

  /** Bytes allocated. */
  get bytes(): number {
    let bytes = 0;
    for (const tier of this.#tiers) bytes += tier?.bytes ?? 0;
    for (const blocks of this.#blocks) bytes += blocks?.bytes ?? 0;
    return bytes;
  }

  /** Distinct blocks, counted on each tier. */
  get blocks(): number {
    let blocks = 0;
    for (const tier of this.#tiers) blocks += tier?.size ?? 0;
    return blocks;
  }

  /** Returns the number of blocks that the sources of a slot have announced. */
  blocksOf(slot: number): number {
    let blocks = 0;
    for (const lane of this.#lanes.of(slot)) blocks += this.#blocks[lane]?.size ?? 0;
    return blocks;
  }

  /**
   * Counts an announcement: an engine has a block.
   * @param slot of the endpoint
   * @param source any integer that tells the sources of an endpoint apart
   * @param low,high the engine's hash
   * @param keyLow,keyHigh the key of its tokens
   * @returns whether the block is new on this tier
   */
  add(slot: number, source: number, tier: number, low: number, high: number, keyLow: number, keyHigh: number): boolean {
    const lane = this.#lanes.open(slot, source);
    let blocks = this.#blocks[lane];
    if (blocks === undefined) {
      while (this.#blocks.length <= lane) this.#blocks.push(undefined);
      blocks = new EngineBlocks(this.#key);
      this.#blocks[lane] = blocks;
    }
    const holders = this.#tiers[tier] ?? this.#openTier(tier);
    const row = blocks.find(low, high, tier);
    if (row >= 0) {
      blocks.refer(row);
      const entry = blocks.entryOf(row);
      if (holders.lowOf(entry) === keyLow && holders.highOf(entry) === keyHigh) return false;
      // The engine uses the hash for other tokens now.
      holders.release(entry, lane);
      blocks.setEntry(row, holders.hold(keyLow, keyHigh, lane));
      return false;
    }
    if (this.#size >= this.#maxPairs) this.#makeRoom(lane, blocks);
    blocks.insert(low, high, tier, holders.hold(keyLow, keyHigh, lane));
    this.#size++;
    return true;
  }

  /**
   * Takes one announcement back.
   * @returns "unknown" when there was none, "kept" when others are left
   */
  remove(slot: number, source: number, tier: number, low: number, high: number): "removed" | "kept" | "unknown" {
    const lane = this.#lanes.find(slot, source);
    const blocks = lane < 0 ? undefined : this.#blocks[lane];
    const row = blocks?.find(low, high, tier) ?? -1;
    if (row < 0) return "unknown";
    if (blocks!.unrefer(row)) return "kept";
    this.#drop(lane, blocks!, row);
    return "removed";
  }

  /**
   * Looks for the key of a block that a source has announced on any tier, and sets `foundLow` and `foundHigh`.
   * @returns whether it is there
   */
  keyOf(slot: number, source: number, low: number, high: number): boolean {
    const lane = this.#lanes.find(slot, source);
    const blocks = lane < 0 ? undefined : this.#blocks[lane];
    if (blocks === undefined) return false;
    for (let tier = 0; tier < this.#tiers.length; tier++) {
      const holders = this.#tiers[tier];
      const row = holders === undefined ? -1 : blocks.find(low, high, tier);
      if (row < 0) continue;
      const entry = blocks.entryOf(row);
      this.foundLow = holders!.lowOf(entry);
      this.foundHigh = holders!.highOf(entry);
      return true;
    }
    return false;
  }

  /**
   * Forgets all blocks of an endpoint, or of one of its sources. The call takes next to no time; `sweep` frees the memory.
   * @param source undefined = all
   */
  clear(slot: number, source?: number): void {
    let added = 0;
    for (const lane of this.#lanes.close(slot, source)) {
      const blocks = this.#blocks[lane];
      const size = blocks?.size ?? 0;
      if (blocks !== undefined && size > FREED_AT_ONCE) {
        this.#leaving.push(lane);
        added += size;
        continue;
      }
      while (blocks !== undefined && blocks.size > 0) this.#drop(lane, blocks, blocks.victim());
      this.#free(lane);
    }
    this.sweep(this.#leaving.length > MAX_LEAVING ? added + FREED_MORE : 0);
  }

  #free(lane: number): void {
    this.#blocks[lane] = undefined;
    this.#lanes.free(lane);
  }

  /**
   * Frees memory of what was forgotten.
   * @param most pairs to free in this call
   * @returns whether some are left
   */
  sweep(most: number): boolean {
    let left = most;
    while (this.#leaving.length > 0) {
      const lane = this.#leaving[0]!;
      const blocks = this.#blocks[lane];
      while (left > 0 && blocks !== undefined && blocks.size > 0) {
        this.#drop(lane, blocks, blocks.victim());
        left--;
      }
      if (blocks !== undefined && blocks.size > 0) return true;
      this.#free(lane);
      this.#leaving.shift();
    }
    return false;
  }

  /**
   * Begins to match a prompt. `extend` and `finish` follow, with nothing in between.
   * @param endpoints the first `count` are candidates
   */
  begin(endpoints: readonly { readonly slot: number }[], count: number): void {
    const words = (this.#lanes.highest >>> 5) + 1;
    this.#words = words;
    this.#reach(words);
    this.#alive.fill(0, 0, words);
    this.#only = this.#order.length === 1 ? this.#order[0]! : -1;
    if (this.#only < 0) for (const best of this.#best) best.fill(0, 0, words);
    this.#run = 0;
    for (let i = 0; i < count; i++)
      for (const lane of this.#lanes.of(endpoints[i]!.slot)) this.#alive[lane >>> 5]! |= 1 << (lane & 31);
  }

  /**
   * Goes on with the next block of the prompt.
   * @returns whether any candidate has it, and all before it
   */
  extend(low: number, high: number): boolean {
    if (this.#only >= 0) return this.#extendOne(low, high, this.#tiers[this.#only]!);
    const words = this.#words;
    const change = this.#holdersOf(low, high, words);
    if ((change & 1) !== 0) {
      // Other holders than those of the run so far.
      this.#credit(words);
      const next = this.#best;
      this.#best = this.#next;
      this.#next = next;
    }
    if ((change & 2) === 0) return false;
    this.#run++;
    return true;
  }

  /** The usual case, one tier: lanes are credited when they end. */
  #extendOne(low: number, high: number, holders: ShardedHolders): boolean {
    const words = this.#words;
    const change = holders.narrow(low, high, this.#alive, this.#gone, words);
    if (change < 0) return false;
    if ((change & 2) !== 0 && this.#run > 0) this.#creditSet(this.#gone, words, this.#run, this.#weights[this.#only]!);
    if ((change & 1) === 0) return false;
    this.#run++;
    return true;
  }

  /**
   * Adds the leading blocks of the prompt to what `out` holds, for endpoints[i] at i.
   * @param endpoints as for `begin`
   * @param factor by which both figures are multiplied
   */
  finish(endpoints: readonly { readonly slot: number }[], count: number, out: Matches, factor = 1): void {
    if (this.#only < 0) this.#credit(this.#words);
    else if (this.#run > 0) this.#creditSet(this.#alive, this.#words, this.#run, this.#weights[this.#only]!);
    const weights = this.#laneWeights;
    const blocks = this.#laneBlocks;
    for (let i = 0; i < count; i++) {
      let weighted = 0;
      let number = 0;
      let confirmed = 0;
      const expected = this.#lanes.expectedAt(endpoints[i]!.slot);
      for (const lane of this.#lanes.of(endpoints[i]!.slot)) {
        weighted = Math.max(weighted, weights[lane]!);
        number = Math.max(number, blocks[lane]!);
        if (lane !== expected) confirmed = Math.max(confirmed, blocks[lane]!);
        weights[lane] = 0;
        blocks[lane] = 0;
      }
      out.weighted[i]! += factor * weighted;
      out.blocks[i]! += factor * number;
      if (out.confirmed !== undefined) out.confirmed[i]! += factor * confirmed;
    }
  }

  /**
   * Finds the best tier of each lane that is alive for a block, and writes it to `#next`. Lanes without the block are no longer
   * alive.
   * @returns bit 0: `#next` differs from `#best`; bit 1: some lane is alive
   */
  #holdersOf(low: number, high: number, words: number): number {
    const entries = this.#entries;
    const alive = this.#alive;
    for (const tier of this.#order) entries[tier] = this.#tiers[tier]?.find(low, high) ?? -1;
    let differs = 0;
    let any = 0;
    for (let word = 0; word < words; word++) {
      let rest = alive[word]!;
      let held = 0;
      for (const tier of this.#order) {
        const best = rest === 0 || entries[tier]! < 0 ? 0 : rest & this.#tiers[tier]!.heldIn(entries[tier]!, word);
        rest &= ~best;
        held |= best;
        differs |= best ^ this.#best[tier]![word]!;
        this.#next[tier]![word] = best;
      }
      alive[word] = held;
      any |= held;
    }
    return (differs === 0 ? 0 : 1) | (any === 0 ? 0 : 2);
  }

  /** Credits each lane with the blocks of the run, by the best tier that holds them. */
  #credit(words: number): void {
    const blocks = this.#run;
    this.#run = 0;
    if (blocks === 0) return;
    for (const tier of this.#order) this.#creditSet(this.#best[tier]!, words, blocks, this.#weights[tier]!);
  }

  #creditSet(set: Uint32Array, words: number, blocks: number, weight: number): void {
    for (let word = 0; word < words; word++) {
      let bits = set[word]!;
      while (bits !== 0) {
        const top = 31 - Math.clz32(bits);
        this.#laneWeights[word * 32 + top]! += weight * blocks;
        this.#laneBlocks[word * 32 + top]! += blocks;
        bits ^= 1 << top;
      }
    }
  }

  #openTier(tier: number): ShardedHolders {
    const holders = new ShardedHolders();
    this.#tiers[tier] = holders;
    this.#order = this.#byWeight.filter((one) => this.#tiers[one] !== undefined);
    return holders;
  }

  #makeRoom(lane: number, blocks: EngineBlocks): void {
    if (this.#leaving.length > 0) {
      this.sweep(64);
      if (this.#size < this.#maxPairs) return;
    }
    this.#evictions++;
    const share = this.#maxPairs / Math.max(1, this.#lanes.size);
    if (blocks.size > 0 && blocks.size >= share) {
      this.#drop(lane, blocks, blocks.victim());
      return;
    }
    let most = -1;
    for (let other = 0; other < this.#blocks.length; other++)
      if ((this.#blocks[other]?.size ?? 0) > (this.#blocks[most]?.size ?? 0)) most = other;
    const largest = this.#blocks[most]!;
    this.#drop(most, largest, largest.victim());
  }

  #drop(lane: number, blocks: EngineBlocks, row: number): void {
    this.#tiers[blocks.tierOf(row)]!.release(blocks.entryOf(row), lane);
    blocks.remove(row);
    this.#size--;
  }

  #reach(words: number): void {
    if (words <= this.#alive.length) return;
    this.#alive = new Uint32Array(words);
    this.#gone = new Uint32Array(words);
    this.#best = this.#best.map(() => new Uint32Array(words));
    this.#next = this.#next.map(() => new Uint32Array(words));
    this.#laneWeights = new Float64Array(32 * words);
    this.#laneBlocks = new Int32Array(32 * words);
  }
}
