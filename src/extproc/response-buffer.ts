/** A non-streaming answer is held back up to here, then passed through (spec/decisions.md). */
const LIMIT = 4 * 1024 * 1024;

/** Holds the pieces of a non-streaming response until it ends or grows too large to hold. */
export class ResponseBuffer {
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  #passing = false;

  /** @returns the pieces to send now, in order; undefined while the body is held */
  add(chunk: Uint8Array, end: boolean): readonly Uint8Array[] | undefined {
    if (this.#passing) return [chunk];
    this.#pieces.push(chunk);
    this.#bytes += chunk.length;
    if (!end && this.#bytes <= LIMIT) return undefined;
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#passing = true;
    return pieces;
  }
}
