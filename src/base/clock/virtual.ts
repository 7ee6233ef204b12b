import type { Clock, Timer } from "./clock.ts";

interface Entry {
  due: number;
  order: number;
  callback: () => void;
  cancelled: boolean;
}

/**
 * A clock that moves only when its owner moves it. Timers fire in the order of their due times, and equal due times in the
 * order of arming. Wall time is the given epoch plus the monotonic time, until a caller sets it.
 */
export class VirtualClock implements Clock {
  #epoch: number;
  readonly #heap: Entry[] = [];
  #now = 0;
  #order = 0;
  #fired = 0;

  /** @param epoch wall-clock milliseconds at monotonic 0 */
  constructor(epoch = 0) {
    this.#epoch = epoch;
  }

  now(): number {
    return this.#now;
  }

  wall(): number {
    return this.#epoch + this.#now;
  }

  /** Sets the wall clock forward or back by `ms`. The monotonic time stays, and no timer fires. */
  set(ms: number): void {
    this.#epoch += ms;
  }

  after(ms: number, callback: () => void): Timer {
    const entry: Entry = { due: this.#now + Math.max(0, ms), order: this.#order++, callback, cancelled: false };
    this.#push(entry);
    return {
      cancel() {
        entry.cancelled = true;
      },
    };
  }

  soon(callback: () => void): void {
    this.after(0, callback);
  }

  /** Timers that have fired so far. */
  get fired(): number {
    return this.#fired;
  }

  /** Timers that are armed and not cancelled. */
  get pending(): number {
    return this.#heap.reduce((count, entry) => (entry.cancelled ? count : count + 1), 0);
  }

  /** Fires every timer due within the next `ms` milliseconds. Afterwards the time is exactly `ms` later. Synchronous. */
  advance(ms: number): void {
    const end = this.#now + ms;
    while (this.#heap.length > 0 && this.#heap[0]!.due <= end) this.#fire();
    this.#now = end;
  }

  /** As `advance`, but lets promise callbacks run after every timer, for code that awaits between timers. */
  async advanceAsync(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    while (this.#heap.length > 0 && this.#heap[0]!.due <= end) {
      this.#fire();
      await settle();
    }
    this.#now = end;
  }

  /** Fires timers until none is left or `limit` milliseconds have passed; returns the time that passed. */
  run(limit = Number.POSITIVE_INFINITY): number {
    const start = this.#now;
    while (this.#heap.length > 0 && this.#heap[0]!.due <= start + limit) this.#fire();
    return this.#now - start;
  }

  #fire(): void {
    const entry = this.#pop();
    if (entry.cancelled) return;
    this.#now = Math.max(this.#now, entry.due);
    this.#fired++;
    entry.callback();
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(entry);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(entry, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = entry;
  }

  #pop(): Entry {
    const heap = this.#heap;
    const top = heap[0]!;
    const last = heap.pop()!;
    if (heap.length > 0) {
      let at = 0;
      for (;;) {
        let child = 2 * at + 1;
        if (child >= heap.length) break;
        if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
        if (!before(heap[child]!, last)) break;
        heap[at] = heap[child]!;
        at = child;
      }
      heap[at] = last;
    }
    return top;
  }
}

function before(a: Entry, b: Entry): boolean {
  return a.due < b.due || (a.due === b.due && a.order < b.order);
}

/** Lets chains of resolved promises run to their end. This number of turns covers the longest chain in this code base. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 64; turn++) await Promise.resolve();
}
