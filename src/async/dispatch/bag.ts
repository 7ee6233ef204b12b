/** Something that a bag holds, at most one at a time. */
export interface Bagged {
  /** Its place in the bag; the bag's own business, -1 outside. */
  slot: number;
}

/**
 * A set of things that come and go all the time. A `Map` or `Set` makes a new table after so many changes, and the table it
 * leaves points to the new one: once a table has become old, the garbage collector keeps every later one, with all that was
 * in it, until it looks through the whole heap. In `bench/dispatch` what came and went outlived each small collection that
 * way, and a message cost a quarter more processor time. An array whose last element takes the place of what goes leaves
 * nothing behind.
 */
export class Bag<T extends Bagged> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: T): void {
    item.slot = this.#items.push(item) - 1;
  }

  /** @returns whether it was in here */
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

  /** What is in it now, in no order; the bag may change meanwhile. */
  all(): T[] {
    return this.#items.slice();
  }
}
