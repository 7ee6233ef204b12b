/** Slots per word of a holder set. */
const WORD = 32;
const FIRST_ENTRIES = 64;
const FIRST_ROWS = 16;
const STRIDE = 4;
const HIGH = 1;
const NEXT = 2;
const HOLDER = 3;

/**
 * The endpoints that hold each block: a hash map from a 64-bit hash to a set of endpoint slots, over typed arrays.
 *
 * The entry itself keeps a set of one slot, the usual case where routing follows prefixes. Larger sets are bit sets, so that a
 * lookup for all candidates costs one word per 32 slots. An entry exists while it has a holder, and its number does not change
 * in that time.
 *
 * Memory: 16 bytes per entry and 4 to 8 for the bucket, and 4 + slots/8 bytes per entry with two or more holders. The arrays
 * double, so up to twice that is allocated.
 */
export class HolderTable {
  /** Entry + 1 per bucket; 0 = none. */
  #heads = new Int32Array(FIRST_ENTRIES);
  /**
   * Four numbers per entry, side by side so that a probe touches one cache line. Two numbers are the halves of the hash, low
   * and high. The third is the next entry + 1 of the same bucket or of the free list. The fourth is the only holder's slot or
   * ~row.
   */
  #entries = new Int32Array(STRIDE * FIRST_ENTRIES);
  /** Number of entries ever used; the free entries are among them. */
  #used = 0;
  /** Entry + 1. A free entry has ~next in place of next, so that no search takes it for one in use. */
  #freeEntry = 0;
  /** The entry found or made last, and the way from the one before it: 1 or -1. */
  #last = 0;
  #step = 1;
  #size = 0;

  /** Words per row. */
  #width = 1;
  #rows = new Uint32Array(FIRST_ROWS);
  #rowCounts = new Int32Array(FIRST_ROWS);
  #rowsUsed = 0;
  /** Row + 1; `#rowCounts` links the free rows. */
  #freeRow = 0;
  #sharedSize = 0;

  /** The number of hashes with a holder. */
  get size(): number {
    return this.#size;
  }

  /** The number of hashes with two or more holders. */
  get sharedSize(): number {
    return this.#sharedSize;
  }

  /** Bytes allocated. */
  get bytes(): number {
    return this.#heads.byteLength + this.#entries.byteLength + this.#rows.byteLength + this.#rowCounts.byteLength;
  }

  /**
   * Returns the entry of a hash, or -1 when it has no holder.
   *
   * The blocks of a prompt came one after the other, so that their entries lie side by side. A search first looks beside the
   * entry of the last one: memory that the processor has at hand, where a bucket costs two reads of far memory.
   */
  find(low: number, high: number): number {
    const last = this.#last;
    const step = this.#step;
    if (this.#isEntry(last + step, low, high)) {
      this.#last = last + step;
      return last + step;
    }
    if (this.#isEntry(last - step, low, high)) {
      this.#step = -step;
      this.#last = last - step;
      return last - step;
    }
    const entries = this.#entries;
    let entry = this.#heads[low & (this.#heads.length - 1)]! - 1;
    while (entry >= 0) {
      const at = STRIDE * entry;
      if (entries[at] === low && entries[at + HIGH] === high) {
        this.#last = entry;
        break;
      }
      entry = entries[at + NEXT]! - 1;
    }
    return entry;
  }

  /**
   * Adds `slot` to the holders of a hash; it may be one already.
   * @param guess the entry, if it is still the entry of this hash; any integer
   * @returns the entry
   */
  hold(low: number, high: number, slot: number, guess = -1): number {
    const found = this.#isEntry(guess, low, high) ? guess : this.find(low, high);
    if (found < 0) return this.#insert(low, high, slot);
    const holder = this.#entries[STRIDE * found + HOLDER]!;
    if (holder >= 0) {
      if (holder === slot) return found;
      const row = this.#takeRow();
      this.#entries[STRIDE * found + HOLDER] = ~row;
      this.#setBit(row, holder);
      this.#setBit(row, slot);
      return found;
    }
    this.#setBit(~holder, slot);
    return found;
  }

  /** Removes `slot` from the holders of an entry; without a holder the entry is freed. A free entry stays as it is. */
  release(entry: number, slot: number): void {
    if (this.#entries[STRIDE * entry + NEXT]! < 0) return;
    const holder = this.#entries[STRIDE * entry + HOLDER]!;
    if (holder >= 0) {
      if (holder === slot) this.#delete(entry);
      return;
    }
    const row = ~holder;
    const at = row * this.#width + (slot >>> 5);
    const bit = 1 << (slot & 31);
    if (slot >= this.#width * WORD || (this.#rows[at]! & bit) === 0) return;
    this.#rows[at]! &= ~bit;
    if (--this.#rowCounts[row]! === 1) this.#entries[STRIDE * entry + HOLDER] = this.#lastOf(row);
  }

  /**
   * Splits `alive`, a bit set of slots: slots that hold the entry stay in it, the others go to `gone`.
   * @param words number of words of both sets
   * @returns bit 0: `alive` is not empty; bit 1: `gone` is not empty
   */
  narrow(entry: number, alive: Uint32Array, gone: Uint32Array, words: number): number {
    const holder = this.#entries[STRIDE * entry + HOLDER]!;
    const width = this.#width;
    const rows = this.#rows;
    const base = holder >= 0 ? 0 : ~holder * width;
    let anyAlive = 0;
    let anyGone = 0;
    for (let word = 0; word < words; word++) {
      const before = alive[word]!;
      if (before === 0) {
        gone[word] = 0;
        continue;
      }
      let held = 0;
      if (holder < 0) held = word < width ? rows[base + word]! : 0;
      else if (holder >>> 5 === word) held = 1 << (holder & 31);
      const kept = before & held;
      alive[word] = kept;
      gone[word] = before & ~held;
      anyAlive |= kept;
      anyGone |= before & ~held;
    }
    return (anyAlive === 0 ? 0 : 1) | (anyGone === 0 ? 0 : 2);
  }

  /** Returns the holders of an entry among the slots of a word, as bits. */
  heldIn(entry: number, word: number): number {
    const holder = this.#entries[STRIDE * entry + HOLDER]!;
    if (holder >= 0) return holder >>> 5 === word ? 1 << (holder & 31) : 0;
    return word < this.#width ? this.#rows[~holder * this.#width + word]! : 0;
  }

  /** Returns the lower half of the hash of an entry. */
  lowOf(entry: number): number {
    return this.#entries[STRIDE * entry]!;
  }

  /** Returns the upper half of the hash of an entry. */
  highOf(entry: number): number {
    return this.#entries[STRIDE * entry + HIGH]!;
  }

  /** Whether `entry`, any integer, is the entry of this hash. */
  #isEntry(entry: number, low: number, high: number): boolean {
    if (entry < 0 || entry >= this.#used) return false;
    const at = STRIDE * entry;
    const entries = this.#entries;
    return entries[at] === low && entries[at + HIGH] === high && entries[at + NEXT]! >= 0;
  }

  #insert(low: number, high: number, slot: number): number {
    let entry = this.#freeEntry - 1;
    if (entry >= 0) this.#freeEntry = ~this.#entries[STRIDE * entry + NEXT]!;
    else {
      if (STRIDE * this.#used === this.#entries.length) this.#grow();
      entry = this.#used++;
    }
    this.#entries[STRIDE * entry] = low;
    this.#entries[STRIDE * entry + HIGH] = high;
    this.#entries[STRIDE * entry + HOLDER] = slot;
    const bucket = low & (this.#heads.length - 1);
    this.#entries[STRIDE * entry + NEXT] = this.#heads[bucket]!;
    this.#heads[bucket] = entry + 1;
    this.#last = entry;
    this.#size++;
    return entry;
  }

  #delete(entry: number): void {
    const bucket = this.#entries[STRIDE * entry]! & (this.#heads.length - 1);
    const follower = this.#entries[STRIDE * entry + NEXT]!;
    let at = this.#heads[bucket]! - 1;
    if (at === entry) this.#heads[bucket] = follower;
    else {
      while (this.#entries[STRIDE * at + NEXT]! - 1 !== entry) at = this.#entries[STRIDE * at + NEXT]! - 1;
      this.#entries[STRIDE * at + NEXT] = follower;
    }
    this.#entries[STRIDE * entry + NEXT] = ~this.#freeEntry;
    this.#freeEntry = entry + 1;
    this.#size--;
  }

  #grow(): void {
    const size = this.#heads.length * 2;
    this.#entries = enlarged(this.#entries, STRIDE * size);
    // Called only when no entry is free, so this rebuilds every chain.
    this.#heads = new Int32Array(size);
    for (let entry = 0; entry < this.#used; entry++) {
      const bucket = this.#entries[STRIDE * entry]! & (size - 1);
      this.#entries[STRIDE * entry + NEXT] = this.#heads[bucket]!;
      this.#heads[bucket] = entry + 1;
    }
  }

  #takeRow(): number {
    this.#sharedSize++;
    let row = this.#freeRow - 1;
    if (row >= 0) this.#freeRow = this.#rowCounts[row]!;
    else {
      if (this.#rowsUsed === this.#rowCounts.length) {
        const rows = new Uint32Array(this.#rows.length * 2);
        rows.set(this.#rows);
        this.#rows = rows;
        this.#rowCounts = enlarged(this.#rowCounts, this.#rowCounts.length * 2);
      }
      row = this.#rowsUsed++;
    }
    this.#rowCounts[row] = 0;
    return row;
  }

  #setBit(row: number, slot: number): void {
    if (slot >= this.#width * WORD) this.#widen(slot);
    const at = row * this.#width + (slot >>> 5);
    const bit = 1 << (slot & 31);
    if ((this.#rows[at]! & bit) !== 0) return;
    this.#rows[at]! |= bit;
    this.#rowCounts[row]!++;
  }

  /** Returns the slot of the last holder of a row, and frees the row. */
  #lastOf(row: number): number {
    const start = row * this.#width;
    let word = 0;
    while (this.#rows[start + word] === 0) word++;
    const slot = word * WORD + 31 - Math.clz32(this.#rows[start + word]!);
    this.#rows[start + word] = 0;
    this.#rowCounts[row] = this.#freeRow;
    this.#freeRow = row + 1;
    this.#sharedSize--;
    return slot;
  }

  /** Makes every row wide enough for `slot`. This happens when the number of slots passes the next power of two. */
  #widen(slot: number): void {
    const old = this.#width;
    let width = old;
    while (slot >= width * WORD) width *= 2;
    const rows = new Uint32Array(this.#rowCounts.length * width);
    for (let row = 0; row < this.#rowsUsed; row++)
      for (let word = 0; word < old; word++) rows[row * width + word] = this.#rows[row * old + word]!;
    this.#rows = rows;
    this.#width = width;
  }
}

function enlarged(array: Int32Array, size: number): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(size);
  larger.set(array);
  return larger;
}
