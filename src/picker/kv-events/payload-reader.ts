/** A payload that is not what engines send. Its message names no content. */
export class MalformedPayload extends Error {}

/** The deepest nesting of a value that is skipped. */
const MAX_DEPTH = 32;

/**
 * Reads MessagePack in place, without objects: numbers into variables, lists of numbers into typed arrays. No list is taken to be
 * longer than the bytes that are left, so a short payload cannot ask for much memory (docs/adr/0037-reader-of-kv-events.md).
 */
export class PayloadReader {
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  /** The halves of the integer or the hash that was read last. */
  low = 0;
  high = 0;

  /** Begins a payload. The bytes must not change until it is read. */
  open(bytes: Buffer): void {
    this.#bytes = bytes;
    this.#at = 0;
  }

  /** The place of the next byte. */
  get at(): number {
    return this.#at;
  }

  set at(at: number) {
    this.#at = at;
  }

  /** Whether the next value is nil; if so, it is read. */
  nil(): boolean {
    if (this.#peek() !== 0xc0) return false;
    this.#at++;
    return true;
  }

  /** Whether the next value is a list. */
  isList(): boolean {
    const byte = this.#peek();
    return (byte & 0xf0) === 0x90 || byte === 0xdc || byte === 0xdd;
  }

  /** Whether the next value is a map. */
  isMap(): boolean {
    const byte = this.#peek();
    return (byte & 0xf0) === 0x80 || byte === 0xde || byte === 0xdf;
  }

  /** Whether the next value is a text. */
  isText(): boolean {
    const byte = this.#peek();
    return (byte & 0xe0) === 0xa0 || (byte >= 0xd9 && byte <= 0xdb);
  }

  /** Reads the head of a list. @returns its length, at most the bytes that are left */
  list(): number {
    const byte = this.#byte();
    if ((byte & 0xf0) === 0x90) return this.#count(byte & 0x0f, 1);
    if (byte === 0xdc) return this.#count(this.#uint(2), 1);
    if (byte === 0xdd) return this.#count(this.#uint(4), 1);
    throw new MalformedPayload("expected a list");
  }

  /** Reads the head of a map. @returns its number of pairs */
  map(): number {
    const byte = this.#byte();
    if ((byte & 0xf0) === 0x80) return this.#count(byte & 0x0f, 2);
    if (byte === 0xde) return this.#count(this.#uint(2), 2);
    if (byte === 0xdf) return this.#count(this.#uint(4), 2);
    throw new MalformedPayload("expected a map");
  }

  /** Reads a text, also one in bytes. @param most the most bytes */
  text(most: number): string {
    if (!this.isText() && !this.#isBytes()) throw new MalformedPayload("expected a string");
    const length = this.#length();
    if (length > most) throw new MalformedPayload("a text is too long");
    const start = this.#take(length);
    return this.#bytes.toString("utf8", start, this.#at);
  }

  /** Reads an integer that fits 32 bits, without a sign or with one. @returns it as 32 bits */
  int32(): number {
    this.int();
    if (this.high !== 0 && this.high !== -1) throw new MalformedPayload("an integer is too large");
    return this.low;
  }

  /** Reads a small integer from 0 up. */
  size(): number {
    this.int();
    if (this.high !== 0 || this.low < 0) throw new MalformedPayload("expected an integer from 0 up");
    return this.low;
  }

  /** Reads an integer into `low` and `high`. */
  int(): void {
    const byte = this.#byte();
    if (byte < 0x80) this.#set(byte, 0);
    else if (byte >= 0xe0) this.#set(byte - 0x100, -1);
    else this.#longInt(byte);
  }

  /** Reads the hash of a block into `low` and `high`: an integer, or bytes or a text, of which the last eight bytes count. */
  hash(): void {
    // Encoders that know no bytes write texts.
    if (this.#isBytes() || this.isText()) {
      const length = this.#length();
      if (length === 0) throw new MalformedPayload("an empty hash");
      this.#lastEight(this.#take(length), length);
    } else this.int();
  }

  /** Reads integers of 32 bits into `out`. */
  int32s(out: Int32Array, count: number): void {
    const bytes = this.#bytes;
    let at = this.#at;
    for (let i = 0; i < count; i++) {
      const byte = bytes[at]!;
      // Tokens are nearly all of these three forms.
      if (byte < 0x80) {
        out[i] = byte;
        at++;
      } else if (byte === 0xcd && at + 2 < bytes.length) {
        out[i] = (bytes[at + 1]! << 8) | bytes[at + 2]!;
        at += 3;
      } else if (byte === 0xce && at + 4 < bytes.length) {
        out[i] = (bytes[at + 1]! << 24) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 8) | bytes[at + 4]!;
        at += 5;
      } else {
        this.#at = at;
        out[i] = this.int32();
        at = this.#at;
      }
    }
    this.#at = at;
  }

  /** Reads over a value of any kind. */
  skip(depth = 0): void {
    if (depth > MAX_DEPTH) throw new MalformedPayload("values are nested too deeply");
    const byte = this.#byte();
    if (byte < 0x80 || byte >= 0xe0 || byte === 0xc0 || byte === 0xc2 || byte === 0xc3) return;
    if ((byte & 0xf0) === 0x80) this.#skipMany(2 * (byte & 0x0f), depth);
    else if ((byte & 0xf0) === 0x90) this.#skipMany(byte & 0x0f, depth);
    else if ((byte & 0xe0) === 0xa0) this.#take(byte & 0x1f);
    else this.#skipLong(byte, depth);
  }

  #skipLong(byte: number, depth: number): void {
    const fixed = FIXED_LENGTHS[byte - 0xc0]!;
    if (fixed > 0) this.#take(fixed);
    else if (byte <= 0xc6) this.#take(this.#uint(1 << (byte - 0xc4)));
    else if (byte <= 0xc9) this.#take(this.#uint(1 << (byte - 0xc7)) + 1);
    else if (byte <= 0xdb) this.#take(this.#uint(1 << (byte - 0xd9)));
    else this.#skipMany(this.#uint((byte & 1) === 0 ? 2 : 4) * (byte >= 0xde ? 2 : 1), depth);
  }

  #skipMany(count: number, depth: number): void {
    this.#count(count, 1);
    for (let i = 0; i < count; i++) this.skip(depth + 1);
  }

  #longInt(byte: number): void {
    const bytes = this.#bytes;
    if (byte === 0xcc) this.#set(this.#uint(1), 0);
    else if (byte === 0xcd) this.#set(this.#uint(2), 0);
    else if (byte === 0xce) this.#set(this.#uint(4) | 0, 0);
    else if (byte === 0xcf || byte === 0xd3) {
      const at = this.#take(8);
      this.#set(bytes.readInt32BE(at + 4), bytes.readInt32BE(at));
    } else if (byte === 0xd0) this.#setSigned((this.#uint(1) << 24) >> 24);
    else if (byte === 0xd1) this.#setSigned((this.#uint(2) << 16) >> 16);
    else if (byte === 0xd2) this.#setSigned(this.#uint(4) | 0);
    else throw new MalformedPayload("expected an integer");
  }

  #setSigned(value: number): void {
    this.#set(value, value < 0 ? -1 : 0);
  }

  #set(low: number, high: number): void {
    this.low = low;
    this.high = high;
  }

  #lastEight(start: number, length: number): void {
    const bytes = this.#bytes;
    const end = start + length;
    let low = 0;
    let high = 0;
    for (let at = Math.max(start, end - 8); at < end; at++) {
      high = (high << 8) | (low >>> 24);
      low = (low << 8) | bytes[at]!;
    }
    this.#set(low, high);
  }

  #isBytes(): boolean {
    const byte = this.#peek();
    return byte >= 0xc4 && byte <= 0xc6;
  }

  /** Reads the head of a text or of bytes. @returns the number of bytes behind it */
  #length(): number {
    const byte = this.#byte();
    if (byte < 0xc0) return byte & 0x1f;
    // 0xc4 to 0xc6 for bytes and 0xd9 to 0xdb for texts say it in one, two and four bytes.
    return this.#uint(1 << (byte - (byte < 0xd9 ? 0xc4 : 0xd9)));
  }

  #peek(): number {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) throw new MalformedPayload("the payload ends too early");
    return byte;
  }

  #byte(): number {
    const byte = this.#peek();
    this.#at++;
    return byte;
  }

  /** Passes over `length` bytes. @returns the place of the first */
  #take(length: number): number {
    const start = this.#at;
    if (length > this.#bytes.length - start) throw new MalformedPayload("the payload ends too early");
    this.#at = start + length;
    return start;
  }

  #uint(width: number): number {
    const at = this.#take(width);
    return this.#bytes.readUIntBE(at, width);
  }

  #count(count: number, bytesEach: number): number {
    if (count * bytesEach > this.#bytes.length - this.#at)
      throw new MalformedPayload("a list is longer than the payload");
    return count;
  }
}

/** Bytes behind the first one, for 0xc0 to 0xdf; 0 = the value says its length, or has no bytes. */
const FIXED_LENGTHS = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 2, 3, 5, 9, 17, 0, 0, 0, 0, 0, 0, 0];
