import type { BatchSequence } from "./batch-sequence.ts";

/** Sequences that wait, linked through themselves: first come, first served, but who was preempted comes first. */
export class WaitingQueue {
  #head: BatchSequence | undefined;
  #tail: BatchSequence | undefined;
  #length = 0;

  get head(): BatchSequence | undefined {
    return this.#head;
  }

  get length(): number {
    return this.#length;
  }

  pushLast(sequence: BatchSequence): void {
    sequence.before = this.#tail;
    if (this.#tail) this.#tail.after = sequence;
    else this.#head = sequence;
    this.#tail = sequence;
    this.#length++;
  }

  pushFirst(sequence: BatchSequence): void {
    sequence.after = this.#head;
    if (this.#head) this.#head.before = sequence;
    else this.#tail = sequence;
    this.#head = sequence;
    this.#length++;
  }

  /** Only for one that is in. */
  remove(sequence: BatchSequence): void {
    if (sequence.before) sequence.before.after = sequence.after;
    else this.#head = sequence.after;
    if (sequence.after) sequence.after.before = sequence.before;
    else this.#tail = sequence.before;
    sequence.before = undefined;
    sequence.after = undefined;
    this.#length--;
  }
}
