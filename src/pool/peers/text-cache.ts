/** A power of two. */
const SLOTS = 4096;

/**
 * Texts that come again and again, such as addresses. To make a string of bytes takes longer than to find one that is equal, and a
 * string that was a key of a map before has its hash at hand. Bounded: each text has one slot, and the last one keeps it.
 */
export class TextCache {
  readonly #texts = new Array<string>(SLOTS).fill("");

  /** Returns a part of the bytes as UTF-8. */
  read(bytes: Buffer, from: number, to: number): string {
    // FNV-1a.
    let hash = 0x811c9dc5;
    for (let i = from; i < to; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193);
    const slot = (hash ^ (hash >>> 16)) & (SLOTS - 1);
    const known = this.#texts[slot]!;
    if (isAscii(known, bytes, from, to)) return known;
    const text = bytes.toString("utf8", from, to);
    this.#texts[slot] = text;
    return text;
  }
}

/** Whether the bytes are those of a text in ASCII. */
function isAscii(text: string, bytes: Buffer, from: number, to: number): boolean {
  if (text.length !== to - from) return false;
  for (let i = 0; i < text.length; i++) {
    const byte = bytes[from + i]!;
    if (byte > 0x7f || text.charCodeAt(i) !== byte) return false;
  }
  return true;
}
