const WAYS = 8;
const STRIDE = 4;
const HIGH = 1;
const SLOT = 2;
const STAMP = 3;
/** Numbers of a set: two cache lines. */
const SET = WAYS * STRIDE;
const SHARD_BITS = 6;
const SHARDS = 1 << SHARD_BITS;
const FIRST_SLOTS = 32;
const FIRST_GROUPS = 16;

/**
 * The placements of one endpoint, each with a stamp. Stamps count up and begin again, so they are compared by their difference.
 */
class Groups {
  /** The stamp of the present placement: it is over once it has a block that was new. */
  next = 1;
  blocks = 0;
  weight = 0;
  /** Rings by stamp: blocks of the placement that no later one has and this process has not placed itself; tokens in each of them. */
  #left = new Int32Array(FIRST_GROUPS);
  #tokens = new Float64Array(FIRST_GROUPS);

  get bytes(): number {
    return this.#left.byteLength + this.#tokens.byteLength;
  }

  /** @param forgotten the last stamp that is */
  begin(blockTokens: number, forgotten: number): void {
    if (((this.next - forgotten) | 0) >= this.#left.length) this.#grow(forgotten);
    const at = this.next & (this.#left.length - 1);
    this.weight += this.#left[at]! * (blockTokens - this.#tokens[at]!);
    this.#tokens[at] = blockTokens;
  }

  /** Blocks join a placement, or leave it with a negative number. */
  change(stamp: number, blocks: number): void {
    const at = stamp & (this.#left.length - 1);
    this.#left[at]! += blocks;
    this.blocks += blocks;
    this.weight = this.blocks === 0 ? 0 : this.weight + blocks * this.#tokens[at]!;
  }

  /** All blocks of a placement leave. @returns how many there were */
  clear(stamp: number): number {
    const left = this.#left[stamp & (this.#left.length - 1)]!;
    this.change(stamp, -left);
    return left;
  }

  #grow(forgotten: number): void {
    const size = 2 * this.#left.length;
    const left = new Int32Array(size);
    const tokens = new Float64Array(size);
    for (let stamp = this.next; stamp !== forgotten; stamp = (stamp - 1) | 0) {
      left[stamp & (size - 1)] = this.#left[stamp & (this.#left.length - 1)]!;
      tokens[stamp & (size - 1)] = this.#tokens[stamp & (this.#left.length - 1)]!;
    }
    this.#left = left;
    this.#tokens = tokens;
  }
}

/**
 * Which blocks peers have placed at which endpoints, for many placements a second: a table of sets with eight places, each for one
 * pair of block and endpoint. A block costs one look at one set, which depends on its hash alone, and an endpoint forgets a whole
 * placement at once, by its stamp. So it costs a part of what an exact index with an order of use does.
 *
 * A full set loses a pair that may still count. At most half of all places are in use, which makes that rare: 1 % of the pairs.
 *
 * Memory: 32 bytes for each pair and 12 for each placement, and up to twice that allocated. Shards grow one by one, so that no growth
 * takes long.
 */
export class PeerBlocks {
  /** Four numbers for each place: the halves of the hash, the slot of the endpoint, and the stamp of the placement. */
  readonly #shards = Array.from({ length: SHARDS }, () => new Int32Array(SET));
  /** By slot. */
  readonly #groups: (Groups | undefined)[] = [];
  /** By slot: the last stamp that is forgotten. */
  #forgotten = new Int32Array(FIRST_SLOTS);
  #size = 0;
  /** Rotates over the places of full sets. */
  #victim = 0;

  /** Pairs of block and endpoint. */
  get size(): number {
    return this.#size;
  }

  /** Bytes allocated. */
  get bytes(): number {
    let bytes = this.#forgotten.byteLength;
    for (const shard of this.#shards) bytes += shard.byteLength;
    for (const groups of this.#groups) bytes += groups?.bytes ?? 0;
    return bytes;
  }

  /** The blocks that count at the endpoint of `slot`. */
  blocksOf(slot: number): number {
    return this.#groups[slot]?.blocks ?? 0;
  }

  /** Their tokens. */
  weightOf(slot: number): number {
    return this.#groups[slot]?.weight ?? 0;
  }

  /** Begins a placement at an endpoint. @param blockTokens tokens in each of its blocks, above 0 */
  begin(slot: number, blockTokens: number): void {
    if (slot >= this.#forgotten.length) this.#reach(slot);
    while (this.#groups.length <= slot) this.#groups.push(undefined);
    this.#groups[slot] ??= new Groups();
    this.#groups[slot].begin(blockTokens, this.#forgotten[slot]!);
  }

  /**
   * Adds a block to the placement that has begun.
   * @returns whether the endpoint did not have it
   */
  put(low: number, high: number, slot: number): boolean {
    const shard = this.#roomy(high >>> (32 - SHARD_BITS));
    const forgotten = this.#forgotten;
    const groups = this.#groups[slot]!;
    const from = SET * (low & (shard.length / SET - 1));
    let place = -1;
    let isNew = true;
    for (let at = from; at < from + SET; at += STRIDE) {
      const other = shard[at + SLOT]!;
      const stamp = shard[at + STAMP]!;
      const lives = ((stamp - forgotten[other]!) | 0) > 0;
      if (shard[at] === low && shard[at + HIGH] === high && other === slot) {
        place = at;
        if (!lives) break;
        groups.change(stamp, -1);
        isNew = false;
        break;
      }
      if (place < 0 && !lives) place = at;
    }
    if (isNew) this.#size++;
    if (place < 0) place = from + STRIDE * (this.#victim++ & (WAYS - 1));
    shard[place] = low;
    shard[place + HIGH] = high;
    shard[place + SLOT] = slot;
    shard[place + STAMP] = groups.next;
    groups.change(groups.next, 1);
    return isNew;
  }

  /** Ends a placement with at least one block that was new. Blocks of one without belong to the next placement. */
  end(slot: number): void {
    const groups = this.#groups[slot]!;
    groups.next = (groups.next + 1) | 0;
  }

  /** Forgets the oldest placement of an endpoint, which has one. */
  forget(slot: number): void {
    this.#size -= this.#groups[slot]!.clear(++this.#forgotten[slot]!);
  }

  /** Forgets an endpoint that has left. Its placements must have been forgotten. */
  remove(slot: number): void {
    const groups = this.#groups[slot];
    if (groups === undefined) return;
    // Blocks of a placement that had no new ones.
    this.#size -= groups.clear(groups.next);
    this.#forgotten[slot] = groups.next;
    groups.next = (groups.next + 1) | 0;
  }

  /** This process has placed the block itself. @returns whether a peer had */
  take(low: number, high: number, slot: number): boolean {
    const shard = this.#shards[high >>> (32 - SHARD_BITS)]!;
    const from = SET * (low & (shard.length / SET - 1));
    for (let at = from; at < from + SET; at += STRIDE) {
      if (shard[at] !== low || shard[at + HIGH] !== high || shard[at + SLOT] !== slot) continue;
      if (!this.#lives(shard, at)) return false;
      this.#groups[slot]!.change(shard[at + STAMP]!, -1);
      this.#size--;
      shard[at + STAMP] = this.#forgotten[slot]!;
      return true;
    }
    return false;
  }

  /**
   * Moves the endpoints that hold a block from one bit set of slots to another one.
   * @param words number of words of both sets
   * @returns whether any was moved
   */
  keep(low: number, high: number, gone: Uint32Array, alive: Uint32Array, words: number): boolean {
    const shard = this.#shards[high >>> (32 - SHARD_BITS)]!;
    const from = SET * (low & (shard.length / SET - 1));
    let moved = false;
    for (let at = from; at < from + SET; at += STRIDE) {
      if (shard[at] !== low || shard[at + HIGH] !== high || !this.#lives(shard, at)) continue;
      const slot = shard[at + SLOT]!;
      const word = slot >>> 5;
      const bit = 1 << (slot & 31);
      if (word >= words || (gone[word]! & bit) === 0) continue;
      gone[word]! &= ~bit;
      alive[word]! |= bit;
      moved = true;
    }
    return moved;
  }

  #lives(shard: Int32Array, at: number): boolean {
    return ((shard[at + STAMP]! - this.#forgotten[shard[at + SLOT]!]!) | 0) > 0;
  }

  /** The shard, with places for twice its part of all pairs. */
  #roomy(number: number): Int32Array {
    const shard = this.#shards[number]!;
    if ((shard.length / STRIDE) * SHARDS >= 2 * this.#size) return shard;
    const larger = new Int32Array(2 * shard.length);
    const sets = larger.length / SET;
    const used = new Int32Array(sets);
    for (let at = 0; at < shard.length; at += STRIDE) {
      if (!this.#lives(shard, at)) continue;
      const set = shard[at]! & (sets - 1);
      larger.set(shard.subarray(at, at + STRIDE), SET * set + STRIDE * used[set]!++);
    }
    this.#shards[number] = larger;
    return larger;
  }

  #reach(slot: number): void {
    let slots = this.#forgotten.length;
    while (slots <= slot) slots *= 2;
    const forgotten = new Int32Array(slots);
    forgotten.set(this.#forgotten);
    this.#forgotten = forgotten;
  }
}
