/** The first room for a body that comes in several pieces, bytes. */
const FIRST_ROOM = 16 * 1024;
/** What a mere announcement of a length gets, bytes. */
const ANNOUNCED_ROOM = 1024 * 1024;

/**
 * Puts the pieces of a body together. One piece is kept as it is; several are copied into one buffer that doubles, so that
 * a body of single bytes costs no more memory than one in large pieces.
 */
export class BodyCollector {
  size = 0;
  #bytes: Uint8Array = new Uint8Array(0);

  /** @param announced length of the whole body in bytes; NaN when unknown */
  add(piece: Uint8Array, announced: number): void {
    const { size } = this;
    this.size += piece.length;
    if (size === 0) {
      this.#bytes = piece;
      return;
    }
    if (this.size > this.#bytes.length) this.#grow(size, announced);
    this.#bytes.set(piece, size);
  }

  /** The bytes so far; nothing may be added afterwards. */
  bytes(): Uint8Array {
    return this.#bytes.length === this.size ? this.#bytes : this.#bytes.subarray(0, this.size);
  }

  #grow(used: number, announced: number): void {
    let room = Math.max(FIRST_ROOM, this.size, 2 * this.#bytes.length);
    if (announced >= this.size && (announced <= ANNOUNCED_ROOM || announced < room)) room = announced;
    const grown = Buffer.allocUnsafe(room);
    grown.set(used === this.#bytes.length ? this.#bytes : this.#bytes.subarray(0, used));
    this.#bytes = grown;
  }
}
