import { GrowingBytes } from "./growing-bytes.ts";

const NEWLINE = 0x0a;

/** Cuts a stream of bytes into lines of UTF-8 text, wherever the pieces end: only whole lines are decoded. */
export class LineSplitter {
  readonly #maxBytes: number;
  readonly #onLine: (line: string) => void;
  readonly #tooLong: () => Error;
  readonly #rest = new GrowingBytes();

  /**
   * @param maxBytes longest line
   * @param onLine called for each line that is not empty, in order
   * @param tooLong makes the error for a line that is longer
   */
  constructor(maxBytes: number, onLine: (line: string) => void, tooLong: () => Error) {
    this.#tooLong = tooLong;
    this.#maxBytes = maxBytes;
    this.#onLine = onLine;
  }

  /** @throws what `tooLong` makes, and what `onLine` throws */
  push(piece: Buffer): void {
    let start = 0;
    for (;;) {
      const end = piece.indexOf(NEWLINE, start);
      const length = (end < 0 ? piece.length : end) - start;
      if (this.#rest.size + length > this.#maxBytes) throw this.#tooLong();
      if (end < 0) break;
      if (this.#rest.size > 0) {
        this.#rest.append(piece.subarray(start, end));
        this.end();
      } else if (length > 0) this.#onLine(piece.toString("utf8", start, end));
      start = end + 1;
    }
    if (start < piece.length) this.#rest.append(piece.subarray(start));
  }

  /** The stream is over: what has come since the last newline is a line, too. */
  end(): void {
    if (this.#rest.size === 0) return;
    const line = this.#rest.text();
    this.#rest.clear();
    this.#onLine(line);
  }
}
