/** Bytes that come in pieces of any size, put together in one buffer: a million small pieces cost no more than their bytes. */
export class GrowingBytes {
  #buffer: Buffer = Buffer.alloc(0);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  append(piece: Uint8Array): void {
    const size = this.#size + piece.length;
    if (size > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(4096, size, this.#buffer.length * 2));
      this.#buffer.copy(larger, 0, 0, this.#size);
      this.#buffer = larger;
    }
    this.#buffer.set(piece, this.#size);
    this.#size = size;
  }

  /** All of it, decoded as UTF-8. */
  text(): string {
    return this.#buffer.toString("utf8", 0, this.#size);
  }

  /** Forgets the bytes; the memory is kept for what comes next unless it has become large. */
  clear(): void {
    this.#size = 0;
    if (this.#buffer.length > 65_536) this.#buffer = Buffer.alloc(0);
  }
}
