const FIRST_LENGTH = 1024;

/**
 * Runs of numbers in the order in which they came; the oldest are dropped first. All runs share one array outside the JavaScript
 * heap, so that a decision leaves no numbers for the garbage collector. The array doubles when the runs that it keeps fill it.
 *
 * A position counts all numbers since the start, so it stays valid when the array grows: it names the same number until that
 * number is dropped.
 */
export class NumberRing {
  /** Its length is a power of two. */
  #numbers = new Float64Array(FIRST_LENGTH);
  /** Position of the oldest number kept. */
  #first = 0;
  #next = 0;
  /** Place of the next number in the array. */
  #at = 0;

  /** The position that the next number gets. */
  get next(): number {
    return this.#next;
  }

  /** Bytes allocated. */
  get bytes(): number {
    return this.#numbers.byteLength;
  }

  /** Makes room for `count` numbers, from 0 up; `push` does not check. */
  reserve(count: number): void {
    const kept = this.#next - this.#first;
    let length = this.#numbers.length;
    while (kept + count > length) length *= 2;
    if (length === this.#numbers.length) return;
    const larger = new Float64Array(length);
    for (let i = 0; i < kept; i++) larger[i] = this.#numbers[this.#placeOf(this.#first + i)]!;
    this.#numbers = larger;
    this.#at = kept;
  }

  /** Adds the first `count` of `values`. */
  push(values: Float64Array, count: number): void {
    const numbers = this.#numbers;
    const last = numbers.length - 1;
    let at = this.#at;
    for (let i = 0; i < count; i++) {
      numbers[at] = values[i]!;
      at = (at + 1) & last;
    }
    this.#at = at;
    this.#next += count;
  }

  /** Returns `count` numbers from a position on; undefined when the first of them has been dropped. */
  read(position: number, count: number): number[] | undefined {
    if (position < this.#first) return undefined;
    return Array.from({ length: count }, (_, i) => this.#numbers[this.#placeOf(position + i)]!);
  }

  /** Drops all numbers before a position. */
  dropBefore(position: number): void {
    if (position > this.#first) this.#first = Math.min(position, this.#next);
  }

  #placeOf(position: number): number {
    return (this.#at - (this.#next - position)) & (this.#numbers.length - 1);
  }
}
