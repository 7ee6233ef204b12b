/** Bytes of a body from which a request waits in the lane of large ones. */
export const LARGE_BYTES = 32 * 1024;
/** The most waiting requests of each lane. */
export const MAX_SMALL = 1024;
export const MAX_LARGE = 128;
/** The most bytes of waiting large requests. Small ones take at most `MAX_SMALL` times `LARGE_BYTES`. */
export const MAX_WAITING_BYTES = 64 * 2 ** 20;
/** Small requests that may overtake the oldest large one. */
export const OVERTAKERS = 16;

/** Something that waits, with its size. */
interface Sized {
  readonly bytes: number;
}

/**
 * The requests that wait for a worker, in two lanes. Small ones go first, so that they need not wait for large ones. A large one
 * goes when none is small, or when enough small ones have overtaken it. With several workers, one is always left to small ones.
 */
export class Lanes<T extends Sized> {
  readonly #small = new Set<T>();
  readonly #large = new Set<T>();
  #largeBytes = 0;
  #overtaken = 0;

  /** Waiting requests of each lane. */
  get waiting(): { readonly small: number; readonly large: number; readonly largeBytes: number } {
    return { small: this.#small.size, large: this.#large.size, largeBytes: this.#largeBytes };
  }

  /** @returns whether there was room */
  add(item: T): boolean {
    if (item.bytes <= LARGE_BYTES) {
      if (this.#small.size >= MAX_SMALL) return false;
      this.#small.add(item);
      return true;
    }
    if (this.#large.size >= MAX_LARGE || this.#largeBytes + item.bytes > MAX_WAITING_BYTES) return false;
    this.#large.add(item);
    this.#largeBytes += item.bytes;
    return true;
  }

  /** Takes an item out that no longer needs to wait; no effect when it does not wait. */
  remove(item: T): void {
    if (this.#small.delete(item)) return;
    if (!this.#large.delete(item)) return;
    this.#largeBytes -= item.bytes;
    if (this.#large.size === 0) this.#overtaken = 0;
  }

  /**
   * Takes the next item out for a free worker; undefined = none may go now.
   * @param largeRunning the large items that workers have @param workers all workers, from 1 up
   */
  take(largeRunning: number, workers: number): T | undefined {
    const large = largeRunning < Math.max(1, workers - 1) ? first(this.#large) : undefined;
    const small = first(this.#small);
    if (small !== undefined && (large === undefined || this.#overtaken < OVERTAKERS)) {
      if (large !== undefined) this.#overtaken++;
      this.#small.delete(small);
      return small;
    }
    if (large === undefined) return undefined;
    this.#overtaken = 0;
    this.remove(large);
    return large;
  }
}

function first<T>(set: ReadonlySet<T>): T | undefined {
  for (const item of set) return item;
  return undefined;
}
