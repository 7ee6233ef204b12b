/** Hands out the smallest free integers, and marks them for set operations without allocating. */
export class SlotTable {
  readonly #used: Uint8Array;
  readonly #stamps: Uint32Array;
  #stamp = 0;
  #lowestFree = 0;

  /** @param size how many slots there are; `take` must not be called more often */
  constructor(size: number) {
    this.#used = new Uint8Array(size);
    this.#stamps = new Uint32Array(size);
  }

  /** The smallest free slot. */
  take(): number {
    const slot = this.#used.indexOf(0, this.#lowestFree);
    this.#used[slot] = 1;
    this.#lowestFree = slot + 1;
    return slot;
  }

  release(slot: number): void {
    this.#used[slot] = 0;
    this.#lowestFree = Math.min(this.#lowestFree, slot);
  }

  /** Starts a new, empty set of slots; the one before is void. */
  clearMarks(): void {
    this.#stamp = (this.#stamp + 1) >>> 0;
    if (this.#stamp === 0) {
      this.#stamps.fill(0);
      this.#stamp = 1;
    }
  }

  /** Adds a slot to the set. @returns false when it was in it already */
  mark(slot: number): boolean {
    if (this.#stamps[slot] === this.#stamp) return false;
    this.#stamps[slot] = this.#stamp;
    return true;
  }
}
