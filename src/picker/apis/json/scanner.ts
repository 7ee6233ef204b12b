/** The deepest accepted nesting, as in Go's decoder: the reference refuses the same documents. */
export const MAX_DEPTH = 10_000;

const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;

const TRUE = Buffer.from("true");
const FALSE = Buffer.from("false");
const NULL = Buffer.from("null");

/** The value of each byte as a hexadecimal digit; -1 = it is no hexadecimal digit. */
const HEX = new Int8Array(256).fill(-1);
for (let digit = 0; digit < 16; digit++) {
  const character = digit.toString(16);
  HEX[character.charCodeAt(0)] = digit;
  HEX[character.toUpperCase().charCodeAt(0)] = digit;
}

/** Bytes; for a shorter document the word view (about 40 ns) costs more than it saves. */
const WORDS_FROM = 128;
/** The scan finds an offset within a word from its bits, so the first byte of a word must be its lowest. */
const LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
const NO_WORDS = new Int32Array(0);

/**
 * Marks the bytes of a word that may end a run of plain string bytes: below 0x20, a quote or a backslash. The mark is the
 * highest bit of the byte. The lowest mark is right. Higher ones may be false, because subtraction borrows from a byte that is
 * a hit ("Bit Twiddling Hacks", hasless and haszero).
 */
function suspects(word: number): number {
  const quote = word ^ 0x22222222;
  const slash = word ^ 0x5c5c5c5c;
  const low = (word - 0x20202020) & ~word;
  return (low | ((quote - 0x01010101) & ~quote) | ((slash - 0x01010101) & ~slash)) & 0x80808080;
}

/** The highest bit of each byte of a word that is below 0x20. The lowest mark is right, as with `suspects`. */
function controls(word: number): number {
  return (word - 0x20202020) & ~word & 0x80808080;
}

/**
 * Words of a string without any mark, after which the scan looks for its end by native code. A line of text is shorter: for the
 * rest of a line, the call costs more than it saves.
 */
const NEAR = 256;

/** Open containers of the skipped value, as their opening bytes. All scans share the array, because a scan never yields. */
const containers = new Uint8Array(MAX_DEPTH + 1);

/**
 * Walks over JSON in place. The scanner checks JSON as strictly as `JSON.parse` and finds the ends of values, without building
 * them. Inside strings it accepts bytes that are not valid UTF-8, because a lenient decoder would replace them.
 *
 * It checks strings four bytes at a time through an `Int32Array` over the same memory. Long strings reach up to 3 GB/s, against
 * 1.1 GB/s byte by byte (`bench/json-scan.ts`).
 *
 * Methods take and return offsets into `bytes`. -1 means failure; `error` then holds the reason in the words of Go's decoder.
 */
export class JsonScanner {
  readonly bytes: Uint8Array;
  /** The reason why the last call returned -1. */
  error = "";
  /** Whether the last string skipped holds a backslash. */
  escaped = false;
  /** The bytes that escapes added to the strings skipped so far: their received length less their length in UTF-8. */
  escapeBytes = 0;
  /** The next quote and the next backslash, where they are known: the last ones found. */
  #quoteAt = -1;
  #backslashAt = -1;
  readonly #words: Int32Array;
  /** Offset in `bytes` of the first word: 0 to 3, as alignment requires. */
  readonly #wordsAt: number;

  /** @param bytes one contiguous document; not copied, must not change while it is scanned */
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    if (bytes.length < WORDS_FROM || !LITTLE_ENDIAN) {
      this.#words = NO_WORDS;
      this.#wordsAt = 0;
    } else {
      this.#wordsAt = -bytes.byteOffset & 3;
      const count = (bytes.length - this.#wordsAt) >> 2;
      this.#words = new Int32Array(bytes.buffer, bytes.byteOffset + this.#wordsAt, count);
    }
  }

  /** Returns the offset of the first byte from `at` on that is not white space; the length when there is none. */
  skipSpace(at: number): number {
    const bytes = this.bytes;
    const length = bytes.length;
    let i = at;
    while (i < length) {
      const c = bytes[i]!;
      if (c > SPACE || (c !== SPACE && c !== 0x0a && c !== 0x0d && c !== 0x09)) break;
      i++;
    }
    return i;
  }

  /**
   * @param at the beginning of the value, after any white space
   * @param depth number of open containers around it
   * @returns the offset after the value, or -1
   */
  skipValue(at: number, depth = 0): number {
    const bytes = this.bytes;
    const length = bytes.length;
    let open = depth;
    let i = at;
    for (;;) {
      if (i >= length) return this.fail(i, "");
      const c = bytes[i]!;
      if (c === QUOTE) {
        i = this.skipString(i + 1);
      } else if (c === OPEN_OBJECT || c === OPEN_ARRAY) {
        if (open >= MAX_DEPTH) return this.fail(i, "exceeded max depth");
        containers[open++] = c;
        i = this.skipSpace(i + 1);
        // In ASCII the closing byte is the opening one plus two, for both kinds.
        if (i < length && bytes[i] === c + 2) {
          open--;
          i++;
        } else {
          if (c === OPEN_OBJECT) i = this.skipKey(i);
          if (i < 0) return -1;
          continue;
        }
      } else if (c === MINUS || (c >= ZERO && c <= NINE)) {
        i = this.#skipNumber(i);
      } else if (c === 0x74) {
        i = this.#skipLiteral(i, TRUE, "true");
      } else if (c === 0x66) {
        i = this.#skipLiteral(i, FALSE, "false");
      } else if (c === 0x6e) {
        i = this.#skipLiteral(i, NULL, "null");
      } else {
        return this.fail(i, "looking for beginning of value");
      }
      if (i < 0) return -1;
      // After a value: close each container that ends here, then step over the comma to the next value.
      for (;;) {
        if (open === depth) return i;
        const container = containers[open - 1]!;
        i = this.skipSpace(i);
        const next = i < length ? bytes[i]! : 0;
        if (next === COMMA) {
          i = this.skipSpace(i + 1);
          if (container === OPEN_OBJECT) i = this.skipKey(i);
          if (i < 0) return -1;
          break;
        }
        if (next !== container + 2) {
          return this.fail(i, container === OPEN_OBJECT ? "after object key:value pair" : "after array element");
        }
        open--;
        i++;
      }
    }
  }

  /**
   * Steps over a key and its colon.
   *
   * @param at the expected beginning of the key, after any white space
   * @returns the expected beginning of its value, or -1
   */
  skipKey(at: number): number {
    if (at >= this.bytes.length || this.bytes[at] !== QUOTE) {
      return this.fail(at, "looking for beginning of object key string");
    }
    const end = this.skipString(at + 1);
    return end < 0 ? -1 : this.skipColon(end);
  }

  /** @param at the offset after a key's closing quote @returns the expected beginning of the value, or -1 */
  skipColon(at: number): number {
    const i = this.skipSpace(at);
    if (i >= this.bytes.length || this.bytes[i] !== COLON) return this.fail(i, "after object key");
    return this.skipSpace(i + 1);
  }

  /** @param at the offset after the opening quote @returns the offset after the closing quote, or -1 */
  skipString(at: number): number {
    const bytes = this.bytes;
    const length = bytes.length;
    const words = this.#words;
    const count = words.length;
    const wordsAt = this.#wordsAt;
    this.escaped = false;
    let i = at;
    for (;;) {
      // Negative before the first word, at most three bytes into the document.
      let w = (i - wordsAt) >> 2;
      if (w >= 0 && w < count) {
        // In the first word the bytes before `i` do not count.
        let marks = suspects(words[w]!) & (-1 << (((i - wordsAt) & 3) << 3));
        const near = w + NEAR < count ? w + NEAR : count;
        while (marks === 0 && ++w < near) marks = suspects(words[w]!);
        i = wordsAt + (w << 2);
        if (marks !== 0) i += (31 - Math.clz32(marks & -marks)) >> 3;
        else if (w < count) i = this.#endOfPlain(w);
      }
      if (i >= length) return this.fail(i, "");
      const c = bytes[i]!;
      if (c === QUOTE) return i + 1;
      if (c === BACKSLASH) {
        this.escaped = true;
        i = this.#skipEscape(i + 1);
        if (i < 0) return -1;
      } else if (c < SPACE) {
        return this.fail(i, "in string literal");
      } else {
        i++;
      }
    }
  }

  /**
   * Native code finds quote and backslash eight times as fast as a loop over words does, and calls cost 50 ns. What was found
   * stays known, so no byte is searched twice.
   * @param word the first word of the rest of the string
   * @returns the offset of the first byte that is not plain; the length when there is none
   */
  #endOfPlain(word: number): number {
    const bytes = this.bytes;
    const words = this.#words;
    const wordsAt = this.#wordsAt;
    const from = wordsAt + (word << 2);
    if (this.#quoteAt < from) this.#quoteAt = this.#find(QUOTE, from);
    if (this.#backslashAt < from) this.#backslashAt = this.#find(BACKSLASH, from);
    const end = Math.min(this.#quoteAt, this.#backslashAt);
    const last = (end - wordsAt) >> 2;
    let w = word;
    while (
      w + 3 < last &&
      (controls(words[w]!) | controls(words[w + 1]!) | controls(words[w + 2]!) | controls(words[w + 3]!)) === 0
    )
      w += 4;
    while (w < last && controls(words[w]!) === 0) w++;
    let i = wordsAt + (w << 2);
    while (i < end && bytes[i]! >= SPACE) i++;
    return i;
  }

  /** The offset of the first such byte from `from` on; the length when there is none. */
  #find(byte: number, from: number): number {
    const at = this.bytes.indexOf(byte, from);
    return at < 0 ? this.bytes.length : at;
  }

  /** @param at the beginning of an array @returns the beginning of its first element; -1 when it has none */
  firstElement(at: number): number {
    const i = this.skipSpace(at + 1);
    return this.bytes[i] === CLOSE_ARRAY ? -1 : i;
  }

  /**
   * @param end the offset after an element of a valid array
   * @returns the beginning of the next element; -1 after the last one
   */
  nextElement(end: number): number {
    const i = this.skipSpace(end);
    return this.bytes[i] === COMMA ? this.skipSpace(i + 1) : -1;
  }

  /** @param at the offset after the top-level value @returns whether only white space follows */
  isEnd(at: number): boolean {
    const i = this.skipSpace(at);
    if (i === this.bytes.length) return true;
    this.fail(i, "after top-level value");
    return false;
  }

  /** Fails: `bytes[at]`, or the end of the input, is wrong during `context`. */
  fail(at: number, context: string): -1 {
    const bytes = this.bytes;
    this.error = at >= bytes.length ? UNEXPECTED_END : invalidCharacter(bytes[at]!, context);
    return -1;
  }

  /** As `fail`, inside a literal, number or escape, where Go's decoder reads the end of the input as a space. */
  #failInside(at: number, context: string): -1 {
    this.error = invalidCharacter(this.#byte(at), context);
    return -1;
  }

  #byte(at: number): number {
    return at < this.bytes.length ? this.bytes[at]! : SPACE;
  }

  #isDigit(at: number): boolean {
    const c = this.#byte(at);
    return c >= ZERO && c <= NINE;
  }

  #skipDigits(at: number): number {
    const bytes = this.bytes;
    const length = bytes.length;
    let i = at;
    while (i < length && bytes[i]! >= ZERO && bytes[i]! <= NINE) i++;
    return i;
  }

  #skipNumber(at: number): number {
    let i = at;
    if (this.bytes[i] === MINUS) {
      i++;
      if (!this.#isDigit(i)) return this.#failInside(i, "in numeric literal");
    }
    i = this.bytes[i] === ZERO ? i + 1 : this.#skipDigits(i + 1);
    if (this.#byte(i) === DOT) {
      i++;
      if (!this.#isDigit(i)) return this.#failInside(i, "after decimal point in numeric literal");
      i = this.#skipDigits(i + 1);
    }
    // 0x20 turns a letter into lower case.
    if ((this.#byte(i) | 0x20) === 0x65) {
      i++;
      const sign = this.#byte(i);
      if (sign === 0x2b || sign === MINUS) i++;
      if (!this.#isDigit(i)) return this.#failInside(i, "in exponent of numeric literal");
      i = this.#skipDigits(i + 1);
    }
    return i;
  }

  #skipLiteral(at: number, literal: Uint8Array, name: string): number {
    for (let k = 1; k < literal.length; k++) {
      const expected = literal[k]!;
      if (this.#byte(at + k) !== expected) {
        return this.#failInside(at + k, `in literal ${name} (expecting '${String.fromCharCode(expected)}')`);
      }
    }
    return at + literal.length;
  }

  /** @param at the offset after the backslash */
  #skipEscape(at: number): number {
    switch (this.#byte(at)) {
      case QUOTE:
      case BACKSLASH:
      case 0x2f: // slash
      case 0x62: // b
      case 0x66: // f
      case 0x6e: // n
      case 0x72: // r
      case 0x74: // t
        this.escapeBytes++;
        return at + 1;
      case 0x75: // u
        return this.#skipUnit(at + 1);
      default:
        return this.#failInside(at, "in string escape code");
    }
  }

  /** @param at the offset after the `u` */
  #skipUnit(at: number): number {
    const bytes = this.bytes;
    let unit = -1;
    if (at + 4 <= bytes.length)
      unit =
        (HEX[bytes[at]!]! << 12) | (HEX[bytes[at + 1]!]! << 8) | (HEX[bytes[at + 2]!]! << 4) | HEX[bytes[at + 3]!]!;
    if (unit < 0) {
      let i = at;
      while (HEX[this.#byte(i)]! >= 0) i++;
      return this.#failInside(i, "in \\u hexadecimal character escape");
    }
    // The escape has six bytes for one, two or three bytes of UTF-8; both halves of a surrogate pair together are four.
    const isSurrogate = unit >= 0xd800 && unit < 0xe000;
    this.escapeBytes += unit < 0x80 ? 5 : unit < 0x800 || isSurrogate ? 4 : 3;
    return at + 4;
  }
}

/** The reference's message for a document that ends too early (Go's encoding/json, epp-protocol 9.3). */
const UNEXPECTED_END = "unexpected end of JSON input";

const SHORT_ESCAPES: Readonly<Record<number, string>> = {
  7: "\\a",
  8: "\\b",
  9: "\\t",
  10: "\\n",
  11: "\\v",
  12: "\\f",
  13: "\\r",
  39: "\\'",
  92: "\\\\",
};

/**
 * Returns the text of a syntax error in the words of Go's decoder. Clients of the reference see it, and its tests compare it.
 *
 * @param byte the wrong byte, shown as the character with that code, as Go does, also inside a UTF-8 sequence
 * @param context the current step of the decoder, for example `looking for beginning of value`
 */
function invalidCharacter(byte: number, context: string): string {
  return `invalid character '${quoted(byte)}' ${context}`;
}

function quoted(byte: number): string {
  const short = SHORT_ESCAPES[byte];
  if (short !== undefined) return short;
  const hex = byte.toString(16).padStart(2, "0");
  if (byte < 0x20 || byte === 0x7f) return `\\x${hex}`;
  // Of Latin-1, Go calls these characters unprintable: C1 controls, the no-break space and the soft hyphen.
  if ((byte >= 0x80 && byte <= 0xa0) || byte === 0xad) return `\\u00${hex}`;
  return String.fromCharCode(byte);
}
