import { hash } from "node:crypto";
import { SluiceError } from "../../base/inference/errors.ts";

/** The state of a line. */
export const BLANK = 0;
export const OPEN = 1;
/** The line cannot be sent. */
export const BAD = 2;
/** The answer is in the answer file. */
export const DONE = 3;

/** Most lines of one batch: the index keeps about 25 bytes of each. */
export const MAX_LINES = 10_000_000;

/**
 * Where each line of a batch file begins, its state, and the line of each custom id. The index uses arrays of numbers, so that
 * a file may be larger than the memory. Lines count from 1.
 */
export class LineIndex {
  readonly #limit: number;
  readonly #customIdAt: (line: number) => string | undefined;
  #count = 0;
  #starts = new Float64Array(1024);
  #states = new Uint8Array(1024);
  /** An open-addressing table: lines (0 = free) and the hashes of their custom ids. */
  #lines = new Uint32Array(4096);
  #hashes = new Float64Array(4096);
  #entered = 0;

  /** @param customIdAt reads the custom id of an entered line @param limit most lines */
  constructor(customIdAt: (line: number) => string | undefined, limit = MAX_LINES) {
    this.#customIdAt = customIdAt;
    this.#limit = limit;
  }

  get count(): number {
    return this.#count;
  }

  /** Adds the next line. @param start offset of its first byte @throws SluiceError BATCH_TOO_LONG */
  add(start: number, state: number): void {
    if (this.#count === this.#limit)
      throw new SluiceError(
        "BATCH_TOO_LONG",
        `the batch has more than ${this.#limit} lines: split the input into several files`,
      );
    if (this.#count === this.#starts.length) {
      this.#starts = grown(this.#starts, new Float64Array(2 * this.#count));
      this.#states = grown(this.#states, new Uint8Array(2 * this.#count));
    }
    this.#starts[this.#count] = start;
    this.#states[this.#count] = state;
    this.#count++;
  }

  start(line: number): number {
    return this.#starts[line - 1]!;
  }

  state(line: number): number {
    return this.#states[line - 1]!;
  }

  mark(line: number, state: number): void {
    this.#states[line - 1] = state;
  }

  /** Enters the line of a custom id. @returns the line that already has this id and keeps it; else undefined */
  enter(customId: string, line: number): number | undefined {
    const hash = hashOf(customId);
    const slot = this.#slot(hash, customId);
    if (this.#lines[slot] !== 0) return this.#lines[slot];
    this.#lines[slot] = line;
    this.#hashes[slot] = hash;
    this.#entered++;
    if (this.#entered > 0.7 * this.#lines.length) this.#grow();
    return undefined;
  }

  find(customId: string): number | undefined {
    return this.#lines[this.#slot(hashOf(customId), customId)] || undefined;
  }

  /** The slot of a custom id, or the free slot where it belongs. */
  #slot(hash: number, customId: string): number {
    const size = this.#lines.length;
    let slot = hash % size;
    // Two ids share a hash once in 2^48: the id decides.
    while (
      this.#lines[slot] !== 0 &&
      !(this.#hashes[slot] === hash && this.#customIdAt(this.#lines[slot]!) === customId)
    )
      slot = slot + 1 === size ? 0 : slot + 1;
    return slot;
  }

  #grow(): void {
    const [lines, hashes] = [this.#lines, this.#hashes];
    const size = 2 * lines.length;
    this.#lines = new Uint32Array(size);
    this.#hashes = new Float64Array(size);
    for (let at = 0; at < lines.length; at++) {
      if (lines[at] === 0) continue;
      let slot = hashes[at]! % size;
      while (this.#lines[slot] !== 0) slot = slot + 1 === size ? 0 : slot + 1;
      this.#lines[slot] = lines[at]!;
      this.#hashes[slot] = hashes[at]!;
    }
  }
}

/** 48 bits, exact in a double. */
function hashOf(customId: string): number {
  return hash("sha1", customId, "buffer").readUIntLE(0, 6);
}

function grown<T extends Float64Array | Uint8Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
