/** What a heap keeps. An entry is in at most one heap at a time. */
export interface Placed {
  /** Its place in the heap; -1 = in none. Only heaps write it. */
  place: number;
}

/**
 * A binary heap from which any entry can be removed, each in logarithmic time. The entry with the least key leaves first, and of
 * equals the one with the least order. No two entries of a heap have the same order.
 *
 * The heap has arrays of keys and orders of its own: a comparison then reads neighbours in memory, and calls nothing.
 */
export class IndexedHeap<T extends Placed> {
  readonly #entries: T[] = [];
  readonly #keys: number[] = [];
  readonly #orders: number[] = [];

  get size(): number {
    return this.#entries.length;
  }

  /** The entry that leaves first; undefined in an empty heap. */
  get first(): T | undefined {
    return this.#entries[0];
  }

  /** The entries, in no order. */
  get entries(): readonly T[] {
    return this.#entries;
  }

  /** @param key not NaN */
  add(entry: T, key: number, order: number): void {
    const at = this.#entries.push(entry) - 1;
    this.#keys.push(key);
    this.#orders.push(order);
    this.#up(entry, key, order, at);
  }

  /** Removes an entry. No effect when it is not in this heap. */
  remove(entry: T): void {
    const at = entry.place;
    if (at < 0 || this.#entries[at] !== entry) return;
    entry.place = -1;
    const last = this.#entries.pop()!;
    const key = this.#keys.pop()!;
    const order = this.#orders.pop()!;
    if (last !== entry) this.#settle(last, key, order, at);
  }

  /** Gives an entry another key. No effect when it is not in this heap. @param key not NaN */
  moved(entry: T, key: number): void {
    const at = entry.place;
    if (at < 0 || this.#entries[at] !== entry) return;
    this.#settle(entry, key, this.#orders[at]!, at);
  }

  /** Puts an entry where it belongs, from a place that is free. */
  #settle(entry: T, key: number, order: number, at: number): void {
    if (at > 0 && this.#isBefore(key, order, (at - 1) >> 1)) this.#up(entry, key, order, at);
    else this.#down(entry, key, order, at);
  }

  #up(entry: T, key: number, order: number, from: number): void {
    let at = from;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#isBefore(key, order, parent)) break;
      this.#copy(parent, at);
      at = parent;
    }
    this.#write(entry, key, order, at);
  }

  #down(entry: T, key: number, order: number, from: number): void {
    const keys = this.#keys;
    const orders = this.#orders;
    const half = keys.length >> 1;
    let at = from;
    while (at < half) {
      let child = 2 * at + 1;
      if (child + 1 < keys.length && this.#isBefore(keys[child + 1]!, orders[child + 1]!, child)) child++;
      if (this.#isBefore(key, order, child)) break;
      this.#copy(child, at);
      at = child;
    }
    this.#write(entry, key, order, at);
  }

  /** Whether an entry with this key and order leaves before the one at a place. */
  #isBefore(key: number, order: number, at: number): boolean {
    const other = this.#keys[at]!;
    return key < other || (key === other && order < this.#orders[at]!);
  }

  #copy(from: number, to: number): void {
    this.#write(this.#entries[from]!, this.#keys[from]!, this.#orders[from]!, to);
  }

  #write(entry: T, key: number, order: number, at: number): void {
    this.#entries[at] = entry;
    this.#keys[at] = key;
    this.#orders[at] = order;
    entry.place = at;
  }
}
