/** A set of line numbers: one bit for each line. */
export class DoneLines {
  #bits: Uint8Array;

  /** @param lines expected; the set grows beyond */
  constructor(lines: number) {
    this.#bits = new Uint8Array((lines >>> 3) + 1);
  }

  /** @param line from 0 */
  has(line: number): boolean {
    return ((this.#bits[line >>> 3] ?? 0) & (1 << (line & 7))) !== 0;
  }

  add(line: number): void {
    const at = line >>> 3;
    if (at >= this.#bits.length) {
      const grown = new Uint8Array(Math.max(at + 1, 2 * this.#bits.length));
      grown.set(this.#bits);
      this.#bits = grown;
    }
    this.#bits[at]! |= 1 << (line & 7);
  }
}
