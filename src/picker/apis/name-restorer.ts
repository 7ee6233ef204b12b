const KEY = '"model":';
const QUOTE = 0x22;
const NOTHING = Buffer.alloc(0);

/**
 * Characters of the longest name that is put back. Clients choose its length, and an answer may mention it ten thousand
 * times.
 */
export const MAX_RESTORED = 1024;

/**
 * Puts the client's model name back into a response that names the model it was rewritten to: `"model":"<target>"` and
 * `"model": "<target>"` (epp-protocol 4.4, E-69). Names are compared and written as JSON strings. A name that is split
 * between two chunks is found, too: only the bytes that may be the beginning of one wait for the next chunk.
 */
export class NameRestorer {
  readonly #needles: readonly Buffer[];
  readonly #replacements: readonly Buffer[];
  readonly #longest: number;
  #held: Buffer = NOTHING;

  /** @param target what the model server was asked for @param incoming what the client asked for; both not empty, `incoming` at most `MAX_RESTORED` long */
  constructor(target: string, incoming: string) {
    // Python's json module writes other than ASCII characters as escapes, most serialisers don't.
    const spellings = new Set([JSON.stringify(target), ascii(JSON.stringify(target))]);
    const needles: Buffer[] = [];
    const replacements: Buffer[] = [];
    for (const spelling of spellings)
      for (const gap of ["", " "]) {
        needles.push(Buffer.from(`${KEY}${gap}${spelling}`));
        replacements.push(Buffer.from(`${KEY}${gap}${JSON.stringify(incoming)}`));
      }
    this.#needles = needles;
    this.#replacements = replacements;
    this.#longest = Math.max(...needles.map((needle) => needle.length));
  }

  /**
   * @param chunk the next bytes of the body
   * @param end nothing follows
   * @returns the bytes to pass on; `chunk` itself when nothing was held back and nothing is to be changed
   */
  feed(chunk: Uint8Array, end: boolean): Uint8Array {
    const bytes = this.#joined(chunk);
    const parts: Uint8Array[] = [];
    let from = 0;
    let at = bytes.indexOf(KEY);
    while (at >= 0) {
      const match = this.#matchAt(bytes, at);
      if (match >= 0) {
        parts.push(bytes.subarray(from, at), this.#replacements[match]!);
        from = at + this.#needles[match]!.length;
      }
      // A key that begins with the last quote of a name just found is none.
      at = bytes.indexOf(KEY, Math.max(from, at + 1));
    }
    const hold = end ? bytes.length : this.#beginsAt(bytes, from);
    // A copy: the chunk is a view of a socket's buffer.
    if (hold < bytes.length) this.#held = Buffer.from(bytes.subarray(hold));
    if (parts.length === 0) return from === 0 && hold === bytes.length ? bytes : bytes.subarray(from, hold);
    parts.push(bytes.subarray(from, hold));
    return Buffer.concat(parts);
  }

  #joined(chunk: Uint8Array): Buffer {
    if (this.#held.length > 0) {
      const bytes = Buffer.concat([this.#held, chunk]);
      this.#held = NOTHING;
      return bytes;
    }
    return Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
  }

  /** Which needle stands at `at`; -1 when none. */
  #matchAt(bytes: Buffer, at: number): number {
    return this.#needles.findIndex(
      (needle) =>
        at + needle.length <= bytes.length && bytes.compare(needle, 0, needle.length, at, at + needle.length) === 0,
    );
  }

  /** Where a needle begins that the end of `bytes` cuts off; the length of `bytes` when none does. */
  #beginsAt(bytes: Buffer, from: number): number {
    const first = Math.max(from, bytes.length - this.#longest + 1);
    for (let at = bytes.indexOf(QUOTE, first); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) {
      const length = bytes.length - at;
      for (const needle of this.#needles)
        if (length < needle.length && bytes.compare(needle, 0, length, at) === 0) return at;
    }
    return bytes.length;
  }
}

/** A JSON text with everything but ASCII as `\u` escapes. */
function ascii(json: string): string {
  return json.replaceAll(/[\u0080-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
