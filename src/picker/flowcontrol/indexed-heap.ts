/** How a heap orders its entries and remembers their places. One entry may be in several heaps, with a place for each. */
export interface HeapOrder<T> {
  /** Whether `a` leaves before `b`. A strict total order. */
  before(a: T, b: T): boolean;
  /** The place that `setPlace` wrote last; -1 = not in the heap. */
  place(entry: T): number;
  setPlace(entry: T, place: number): void;
}

/** A binary heap from which any entry can be removed, each in logarithmic time. */
export class IndexedHeap<T> {
  readonly #order: HeapOrder<T>;
  #entries: T[] = [];

  constructor(order: HeapOrder<T>) {
    this.#order = order;
  }

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

  add(entry: T): void {
    this.#entries.push(entry);
    this.#up(entry, this.#entries.length - 1);
  }

  /** Removes an entry. No effect when it is not in the heap. */
  remove(entry: T): void {
    const order = this.#order;
    const at = order.place(entry);
    if (at < 0) return;
    order.setPlace(entry, -1);
    const last = this.#entries.pop()!;
    if (last === entry) return;
    if (at > 0 && order.before(last, this.#entries[(at - 1) >> 1]!)) this.#up(last, at);
    else this.#down(last, at);
  }

  /** Restores the order after the key of one entry has changed. No effect when it is not in the heap. */
  moved(entry: T): void {
    const order = this.#order;
    const at = order.place(entry);
    if (at < 0) return;
    if (at > 0 && order.before(entry, this.#entries[(at - 1) >> 1]!)) this.#up(entry, at);
    else this.#down(entry, at);
  }

  #up(entry: T, from: number): void {
    const order = this.#order;
    const entries = this.#entries;
    let at = from;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = entries[parent]!;
      if (!order.before(entry, above)) break;
      entries[at] = above;
      order.setPlace(above, at);
      at = parent;
    }
    entries[at] = entry;
    order.setPlace(entry, at);
  }

  #down(entry: T, from: number): void {
    const order = this.#order;
    const entries = this.#entries;
    const half = entries.length >> 1;
    let at = from;
    while (at < half) {
      let child = 2 * at + 1;
      if (child + 1 < entries.length && order.before(entries[child + 1]!, entries[child]!)) child++;
      const below = entries[child]!;
      if (!order.before(below, entry)) break;
      entries[at] = below;
      order.setPlace(below, at);
      at = child;
    }
    entries[at] = entry;
    order.setPlace(entry, at);
  }
}
