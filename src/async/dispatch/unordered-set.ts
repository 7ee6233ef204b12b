/** A member of an `UnorderedSet`; of one set at a time. */
export interface Slotted {
  /** The index in the set's array; written by the set alone, -1 outside. */
  slot: number;
}

/**
 * A set whose members come and go all the time. A `Map` or `Set` makes a new table after so many changes, and the old table
 * points to the new one. Once one table is old, the garbage collector keeps every later one with its contents until a
 * collection of the whole heap. In `bench/dispatch` a message cost a quarter more processor time that way. This set is an
 * array: the last element takes the place of the one that leaves, so nothing stays behind.
 */
export class UnorderedSet<T extends Slotted> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: T): void {
    item.slot = this.#items.push(item) - 1;
  }

  /** @returns whether it was a member */
  delete(item: T): boolean {
    const { slot } = item;
    if (this.#items[slot] !== item) return false;
    const last = this.#items.pop()!;
    if (last !== item) {
      this.#items[slot] = last;
      last.slot = slot;
    }
    item.slot = -1;
    return true;
  }

  /** A copy of the members, in no order: the set may change meanwhile. */
  all(): T[] {
    return this.#items.slice();
  }
}
