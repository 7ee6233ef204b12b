/** The texts of a message. */
export interface Texts {
  /** The text in bytes [from, to), one character a byte. */
  at(from: number, to: number): string;
}

/** A power of two. */
const SLOTS = 512;
/** Characters; longer names are rare. */
const LONGEST = 48;

/**
 * The lower-case names of headers by their bytes. Streams repeat the same names, so each name is made once and serves all later
 * headers. Comparisons and lookups of one and the same string are also faster than those of equal strings.
 *
 * Each slot keeps the last name that fell into it, so the memory is bounded.
 */
export class HeaderNames {
  readonly #slots: string[] = new Array<string>(SLOTS).fill("");
  /** Whether the last name is in lower case as received. */
  isLower = true;

  /**
   * @param bytes have the name at [from, to), one character a byte
   * @param texts of the same bytes
   * @returns the name in lower case
   */
  at(bytes: Uint8Array, from: number, to: number, texts: Texts): string {
    const length = to - from;
    this.isLower = true;
    if (length === 0 || length > LONGEST) return this.#lower(texts.at(from, to));
    const slot = slotOf(bytes, from, length);
    const known = this.#slots[slot]!;
    if (isAt(known, bytes, from, length)) return known;
    const name = texts.at(from, to);
    const lower = this.#lower(name);
    if (this.isLower) this.#slots[slot] = unique(lower);
    return lower;
  }

  #lower(name: string): string {
    const lower = name.toLowerCase();
    this.isLower = lower === name;
    return lower;
  }
}

/** First, last and middle character and the length tell nearly all names apart. */
function slotOf(bytes: Uint8Array, from: number, length: number): number {
  const middle = bytes[from + (length >> 1)]!;
  const mixed = Math.imul(bytes[from]!, 0x2f) + Math.imul(bytes[from + length - 1]!, 0x1d3) + Math.imul(middle, 0x71);
  return (mixed + Math.imul(length, 0x3b)) & (SLOTS - 1);
}

function isAt(name: string, bytes: Uint8Array, from: number, length: number): boolean {
  if (name.length !== length) return false;
  for (let i = 0; i < length; i++) if (name.charCodeAt(i) !== bytes[from + i]) return false;
  return true;
}

/** The string that the engine uses as the key of a property: it is compared by address, and is no part of a larger string. */
function unique(text: string): string {
  return Object.keys({ [text]: true })[0]!;
}
