/** Holds the pieces of a non-streaming response until it ends or may no longer be held. */
export class ResponseBuffer {
  #pieces: Uint8Array[] = [];

  /**
   * @param hold whether to go on holding: whoever accounts for the bytes says so
   * @returns the pieces to send now, in order; undefined while the body is held
   */
  add(chunk: Uint8Array, hold: boolean): readonly Uint8Array[] | undefined {
    this.#pieces.push(chunk);
    return hold ? undefined : this.take();
  }

  /** What is held, in order; it is held no longer. */
  take(): Uint8Array[] {
    const pieces = this.#pieces;
    this.#pieces = [];
    return pieces;
  }
}
