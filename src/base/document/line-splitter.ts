/** A line of a file of JSON lines, with its place. */
export interface TextLine {
  /** From 1. */
  readonly number: number;
  /** Offset of its first byte. */
  readonly start: number;
  /** Without its end ("\n" or "\r\n"); undefined when it is longer than allowed. */
  readonly bytes: Buffer | undefined;
  /** False only for a last line without its end. */
  readonly ended: boolean;
}

const NEWLINE = 0x0a;
const RETURN = 0x0d;

/** Cuts the bytes of a file into lines. Holds one line at most. */
export class LineSplitter {
  readonly #limit: number;
  #parts: Buffer[] = [];
  #length = 0;
  #number = 1;
  #start = 0;

  /** @param limit bytes of the longest line that is handed out */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The lines that end in `chunk`. They may share the chunk's memory: use them before the next call. */
  *push(chunk: Buffer): Generator<TextLine> {
    let from = 0;
    for (;;) {
      const at = chunk.indexOf(NEWLINE, from);
      if (at < 0) break;
      this.#add(chunk.subarray(from, at));
      yield this.#line(true);
      from = at + 1;
    }
    this.#add(chunk.subarray(from));
  }

  /** Yields the rest behind the last line end, if there is one. */
  *end(): Generator<TextLine> {
    if (this.#length > 0) yield this.#line(false);
  }

  #add(part: Buffer): void {
    this.#length += part.length;
    if (this.#length > this.#limit + 1) this.#parts = [];
    else if (part.length > 0) this.#parts.push(part);
  }

  #line(ended: boolean): TextLine {
    const start = this.#start;
    let bytes: Buffer | undefined;
    if (this.#length <= this.#limit + 1) {
      bytes = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts);
      if (ended && bytes.at(-1) === RETURN) bytes = bytes.subarray(0, -1);
      if (bytes.length > this.#limit) bytes = undefined;
    }
    this.#start += this.#length + (ended ? 1 : 0);
    this.#parts = [];
    this.#length = 0;
    return { number: this.#number++, start, bytes, ended };
  }
}

const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** The text of a line, without a byte order mark; undefined when the line is not UTF-8. */
export function lineText(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes);
  } catch {
    return undefined;
  }
}
