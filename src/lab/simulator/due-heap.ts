import type { Sequence } from "./sequence.ts";

/** Running sequences by the time their next token is due, ties in the order of their ids; at most one entry per slot. */
export class DueHeap {
  readonly #items: Sequence[] = [];

  get size(): number {
    return this.#items.length;
  }

  /** The sequence that is due first, or undefined. */
  get first(): Sequence | undefined {
    return this.#items[0];
  }

  push(sequence: Sequence): void {
    this.#items.push(sequence);
    this.#up(sequence, this.#items.length - 1);
  }

  /** Moves the first sequence to the place of its later due time. */
  firstMoved(): void {
    this.#down(this.#items[0]!, 0);
  }

  /** Does nothing for a sequence outside the heap. */
  remove(sequence: Sequence): void {
    const at = sequence.heapAt;
    if (at < 0) return;
    sequence.heapAt = -1;
    const last = this.#items.pop()!;
    if (last === sequence) return;
    this.#up(last, at);
    this.#down(last, last.heapAt);
  }

  #up(sequence: Sequence, from: number): void {
    let at = from;
    while (at > 0) {
      const parent = this.#items[(at - 1) >> 1]!;
      if (!isBefore(sequence, parent)) break;
      this.#place(parent, at);
      at = (at - 1) >> 1;
    }
    this.#place(sequence, at);
  }

  #down(sequence: Sequence, from: number): void {
    let at = from;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= this.#items.length) break;
      if (child + 1 < this.#items.length && isBefore(this.#items[child + 1]!, this.#items[child]!)) child++;
      if (!isBefore(this.#items[child]!, sequence)) break;
      this.#place(this.#items[child]!, at);
      at = child;
    }
    this.#place(sequence, at);
  }

  #place(sequence: Sequence, at: number): void {
    this.#items[at] = sequence;
    sequence.heapAt = at;
  }
}

function isBefore(a: Sequence, b: Sequence): boolean {
  return a.due < b.due || (a.due === b.due && a.id < b.id);
}
