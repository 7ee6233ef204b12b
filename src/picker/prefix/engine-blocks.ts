const FIRST_ROWS = 64;
/** A table with less than one row of so many in use is made smaller. */
const SHRINK = 8;
const STRIDE = 4;
const HIGH = 1;
const ENTRY = 2;
const META = 3;
/** Bits of the tier in the last number of a row; the references are above them. */
const TIER_BITS = 4;
/** The most tiers that a table can tell apart. */
export const MAX_TIERS = 1 << TIER_BITS;
const ONE_REFERENCE = 1 << TIER_BITS;
const MAX_META = 0x7fffffff - ONE_REFERENCE;

/**
 * The blocks that one engine has announced: a hash map from the engine's own hash and the tier to an entry of the index, with the
 * number of announcements. Open addressing over one typed array, 64 to 80 % full: 20 to 25 bytes a block.
 */
export class EngineBlocks {
  /** Four numbers per row: both halves of the hash, the entry, and tier and references; 0 = the row is free. */
  #rows = new Int32Array(STRIDE * FIRST_ROWS);
  #capacity = FIRST_ROWS;
  #size = 0;
  /** The row that `victim` looks at next. */
  #hand = 0;
  readonly #key: number;

  /** @param key secret random bits: publishers choose their hashes, and must not be able to put all rows in one place */
  constructor(key: number) {
    this.#key = key | 0;
  }

  /** Pairs of hash and tier. */
  get size(): number {
    return this.#size;
  }

  /** Bytes allocated. */
  get bytes(): number {
    return this.#rows.byteLength;
  }

  /** Returns the row of a hash on a tier, or -1. A row is valid until the next change of the table. */
  find(low: number, high: number, tier: number): number {
    const rows = this.#rows;
    let row = this.#homeOf(low, high, tier);
    for (;;) {
      const at = STRIDE * row;
      const meta = rows[at + META]!;
      if (meta === 0) return -1;
      if (rows[at] === low && rows[at + HIGH] === high && (meta & (MAX_TIERS - 1)) === tier) return row;
      if (++row === this.#capacity) row = 0;
    }
  }

  /** Adds a hash that is not there, with one reference. @param entry any integer */
  insert(low: number, high: number, tier: number, entry: number): void {
    if (5 * (this.#size + 1) > 4 * this.#capacity) this.#grow();
    this.#place(low, high, entry, ONE_REFERENCE | tier);
    this.#size++;
  }

  entryOf(row: number): number {
    return this.#rows[STRIDE * row + ENTRY]!;
  }

  tierOf(row: number): number {
    return this.#rows[STRIDE * row + META]! & (MAX_TIERS - 1);
  }

  setEntry(row: number, entry: number): void {
    this.#rows[STRIDE * row + ENTRY] = entry;
  }

  /** One more announcement. */
  refer(row: number): void {
    const at = STRIDE * row + META;
    if (this.#rows[at]! < MAX_META) this.#rows[at]! += ONE_REFERENCE;
  }

  /** One announcement less. @returns whether others are left */
  unrefer(row: number): boolean {
    const at = STRIDE * row + META;
    if (this.#rows[at]! < 2 * ONE_REFERENCE) return false;
    this.#rows[at]! -= ONE_REFERENCE;
    return true;
  }

  /** Removes a row with all its references. */
  remove(row: number): void {
    const rows = this.#rows;
    const capacity = this.#capacity;
    this.#size--;
    let hole = row;
    let next = row;
    for (;;) {
      if (++next === capacity) next = 0;
      const at = STRIDE * next;
      const meta = rows[at + META]!;
      if (meta === 0) break;
      const home = this.#homeOf(rows[at]!, rows[at + HIGH]!, meta & (MAX_TIERS - 1));
      // The row moves into the hole unless its home lies behind the hole.
      if (distance(home, next, capacity) < distance(hole, next, capacity)) continue;
      rows.copyWithin(STRIDE * hole, at, at + STRIDE);
      hole = next;
    }
    rows[STRIDE * hole + META] = 0;
    // An engine that empties its cache gives the memory back, and `victim` never has to look through a table of free rows.
    if (capacity > FIRST_ROWS && SHRINK * this.#size < capacity) this.#rebuild(Math.max(FIRST_ROWS, 2 * this.#size));
  }

  /** Returns a row to evict: the next one in use from where the last search ended, so in no order. There must be one. */
  victim(): number {
    while (this.#rows[STRIDE * this.#hand + META] === 0) this.#hand = (this.#hand + 1) % this.#capacity;
    return this.#hand;
  }

  #place(low: number, high: number, entry: number, meta: number): void {
    const rows = this.#rows;
    let row = this.#homeOf(low, high, meta & (MAX_TIERS - 1));
    while (rows[STRIDE * row + META] !== 0) if (++row === this.#capacity) row = 0;
    const at = STRIDE * row;
    rows[at] = low;
    rows[at + HIGH] = high;
    rows[at + ENTRY] = entry;
    rows[at + META] = meta;
  }

  /** A quarter at a time: the rows of many engines are most of the memory. */
  #grow(): void {
    this.#rebuild(this.#capacity + (this.#capacity >> 2));
  }

  #rebuild(capacity: number): void {
    const old = this.#rows;
    this.#capacity = capacity;
    this.#rows = new Int32Array(STRIDE * this.#capacity);
    this.#hand = 0;
    for (let at = 0; at < old.length; at += STRIDE)
      if (old[at + META] !== 0) this.#place(old[at]!, old[at + HIGH]!, old[at + ENTRY]!, old[at + META]!);
  }

  #homeOf(low: number, high: number, tier: number): number {
    let x = Math.imul(low ^ Math.imul(high ^ this.#key, 0x9e3779b1) ^ tier, 0x85ebca6b);
    x = Math.imul(x ^ (x >>> 15) ^ this.#key, 0xc2b2ae35);
    // The upper bits of a product: the capacity is no power of two.
    return Math.floor(((x ^ (x >>> 13)) >>> 0) * this.#capacity * 2 ** -32);
  }
}

/** The steps from one place to a later one of the ring. */
function distance(from: number, to: number, capacity: number): number {
  return to >= from ? to - from : to - from + capacity;
}
