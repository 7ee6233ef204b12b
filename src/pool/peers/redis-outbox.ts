/** The most messages of the log that wait, and their most bytes. */
export const MOST_WAITING = 1024;
export const MOST_BYTES = 4 * 1024 * 1024;
/** The most messages of the log in one batch. */
const BATCH = 64;

/** What goes to the store in one step. */
export interface Batch {
  readonly load: Buffer | undefined;
  readonly placed: readonly Buffer[];
}

/** The messages that wait for the store: the newest load, and a bounded number of messages for the log, in their order. */
export class Outbox {
  #load: Buffer | undefined;
  readonly #placed: Buffer[] = [];
  #bytes = 0;
  /** Messages of the log that left without reaching the store. */
  dropped = 0;

  get hasLoad(): boolean {
    return this.#load !== undefined;
  }

  /** Messages of the log that wait. */
  get waiting(): number {
    return this.#placed.length;
  }

  /** Replaces a load that still waits: only the newest counts. */
  putLoad(frame: Buffer): void {
    this.#load = frame;
  }

  /** Adds a message of the log. The oldest ones leave when there is no room: what was placed last is still in the caches. */
  putPlaced(frame: Buffer): void {
    if (frame.length > MOST_BYTES) {
      this.dropped++;
      return;
    }
    while (this.#placed.length >= MOST_WAITING || this.#bytes + frame.length > MOST_BYTES) {
      this.#bytes -= this.#placed.shift()!.length;
      this.dropped++;
    }
    this.#placed.push(frame);
    this.#bytes += frame.length;
  }

  /** Takes what goes next. @param log false: only the load */
  take(log: boolean): Batch {
    const load = this.#load;
    this.#load = undefined;
    const placed = this.#placed.splice(0, log ? BATCH : 0);
    for (const frame of placed) this.#bytes -= frame.length;
    return { load, placed };
  }

  /** Takes back messages of the log that the store did not confirm, before those that wait, as far as there is room. */
  giveBack(frames: readonly Buffer[]): void {
    for (const frame of frames.toReversed()) {
      if (this.#placed.length >= MOST_WAITING || this.#bytes + frame.length > MOST_BYTES) {
        this.dropped++;
        continue;
      }
      this.#placed.unshift(frame);
      this.#bytes += frame.length;
    }
  }

  /** Drops all that waits. */
  clear(): void {
    this.dropped += this.#placed.length;
    this.#placed.length = 0;
    this.#bytes = 0;
    this.#load = undefined;
  }
}
