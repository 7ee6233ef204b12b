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

/** What became of a block. `full`: it found no place, so it does not count. */
type Put = "new" | "known" | "full";

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
 * At most half of all places are in use, so that about 2 % of the pairs find their set full. These belong elsewhere (`put`).
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
  readonly #fetched = new Int32Array(1);

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

  /** Reads the sets of blocks that are put next: many reads of far memory at a time take little longer than one. */
  fetch(low: Int32Array, high: Int32Array, from: number, end: number): void {
    let sum = 0;
    for (let i = from; i < end; i++) {
      const shard = this.#shards[high[i]! >>> (32 - SHARD_BITS)]!;
      const at = setOf(shard, low[i]!);
      sum ^= shard[at]! ^ shard[at + SET / 2]!;
    }
    // A result that is used, so that the reads are not left out.
    this.#fetched[0] = sum;
  }

  /** Adds a block to the placement that has begun. */
  put(low: number, high: number, slot: number): Put {
    const shard = this.#roomy(high >>> (32 - SHARD_BITS));
    const groups = this.#groups[slot]!;
    const from = setOf(shard, low);
    let place = -1;
    for (let at = from; at < from + SET; at += STRIDE) {
      if (shard[at] === low && shard[at + HIGH] === high && shard[at + SLOT] === slot && this.#lives(shard, at)) {
        groups.change(shard[at + STAMP]!, -1);
        shard[at + STAMP] = groups.next;
        groups.change(groups.next, 1);
        return "known";
      }
      if (place < 0 && !this.#lives(shard, at)) place = at;
    }
    if (place < 0) return "full";
    shard[place] = low;
    shard[place + HIGH] = high;
    shard[place + SLOT] = slot;
    shard[place + STAMP] = groups.next;
    groups.change(groups.next, 1);
    this.#size++;
    return "new";
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
    const known = this.#find(shard, low, high, slot);
    if (known < 0) return false;
    this.#groups[slot]!.change(shard[known + STAMP]!, -1);
    this.#size--;
    shard[known + STAMP] = this.#forgotten[slot]!;
    return true;
  }

  /**
   * Moves the endpoints that hold a block from one bit set of slots to another one.
   * @param words number of words of both sets
   * @returns whether any was moved
   */
  keep(low: number, high: number, gone: Uint32Array, alive: Uint32Array, words: number): boolean {
    const shard = this.#shards[high >>> (32 - SHARD_BITS)]!;
    const from = setOf(shard, low);
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

  /** @returns the place of a pair that counts, or -1 */
  #find(shard: Int32Array, low: number, high: number, slot: number): number {
    const from = setOf(shard, low);
    for (let at = from; at < from + SET; at += STRIDE)
      if (shard[at] === low && shard[at + HIGH] === high && shard[at + SLOT] === slot && this.#lives(shard, at))
        return at;
    return -1;
  }

  /** @returns a place for a block, or -1 */
  #free(shard: Int32Array, low: number): number {
    const from = setOf(shard, low);
    for (let at = from; at < from + SET; at += STRIDE) if (!this.#lives(shard, at)) return at;
    return -1;
  }

  /** The shard, with places for twice its part of all pairs. */
  #roomy(number: number): Int32Array {
    const shard = this.#shards[number]!;
    if ((shard.length / STRIDE) * SHARDS >= 2 * this.#size) return shard;
    const larger = new Int32Array(2 * shard.length);
    for (let at = 0; at < shard.length; at += STRIDE) {
      if (!this.#lives(shard, at)) continue;
      // There is a place: each set is divided among two.
      larger.set(shard.subarray(at, at + STRIDE), this.#free(larger, shard[at]!));
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

/** The first number of the set that the lower half of a hash leads to. */
function setOf(shard: Int32Array, low: number): number {
  return Math.imul(low, SET) & (shard.length - 1);
}
