/** The largest whole number that a message carries: above it doubles have gaps. */
const MOST = Number.MAX_SAFE_INTEGER;
/** Bytes of a varint of 53 bits. */
const MOST_VARINT = 8;

/** Writes the parts of a message into one growing buffer. */
export class ByteWriter {
  #bytes: Buffer;
  #length = 0;

  /** @param room bytes for which there is room at first, from 1 up */
  constructor(room: number) {
    this.#bytes = Buffer.allocUnsafe(room);
  }

  /** Bytes written so far. */
  get length(): number {
    return this.#length;
  }

  /** Returns a copy of the bytes, and starts again. */
  take(): Uint8Array {
    const taken = Uint8Array.prototype.slice.call(this.#bytes, 0, this.#length);
    this.#length = 0;
    return taken;
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  /** @param value rounded to a whole number from 0 to 2^53 - 1; NaN counts as 0 */
  varint(value: number): void {
    this.#reserve(MOST_VARINT);
    let left = value > 0 ? Math.min(MOST, Math.round(value)) : 0;
    while (left >= 0x80) {
      this.#bytes[this.#length++] = (left % 0x80) | 0x80;
      left = Math.floor(left / 0x80);
    }
    this.#bytes[this.#length++] = left;
  }

  /** A number of 32 bits, signed or not. */
  word(value: number): void {
    this.#reserve(4);
    this.#length = this.#bytes.writeInt32LE(value | 0, this.#length);
  }

  float(value: number): void {
    this.#reserve(4);
    this.#length = this.#bytes.writeFloatLE(value, this.#length);
  }

  /** Pairs of numbers of 32 bits. */
  pairs(low: Int32Array, high: Int32Array, from: number, count: number): void {
    this.#reserve(8 * count);
    const view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.length);
    for (let i = from; i < from + count; i++) {
      view.setInt32(this.#length, low[i]!, true);
      view.setInt32(this.#length + 4, high[i]!, true);
      this.#length += 8;
    }
  }

  /** The length in bytes, then the text as UTF-8. */
  text(value: string): void {
    const length = Buffer.byteLength(value);
    this.varint(length);
    this.#reserve(length);
    this.#length += this.#bytes.write(value, this.#length);
  }

  raw(value: Uint8Array): void {
    this.#reserve(value.length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
  }

  #reserve(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.#length + more));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }
}

/**
 * Reads the parts of a message that anybody may have written. No method throws: the first part that is cut off or out of its range
 * sets `failed`, and every later read gives 0 or "".
 */
export class ByteReader {
  failed = false;
  readonly #bytes: Buffer;
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Whether all bytes have been read. */
  get ended(): boolean {
    return this.#at === this.#bytes.length;
  }

  /** Bytes that are left. */
  get left(): number {
    return this.#bytes.length - this.#at;
  }

  byte(): number {
    return this.#has(1) ? this.#bytes[this.#at++]! : 0;
  }

  /** @param most the largest number that is allowed */
  varint(most: number): number {
    let value = 0;
    let scale = 1;
    for (let count = 0; count < MOST_VARINT; count++) {
      if (!this.#has(1)) return 0;
      const byte = this.#bytes[this.#at++]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value <= most ? value : this.#fail();
      scale *= 0x80;
    }
    return this.#fail();
  }

  word(): number {
    if (!this.#has(4)) return 0;
    const value = this.#view.getInt32(this.#at, true);
    this.#at += 4;
    return value;
  }

  /** Pairs of numbers of 32 bits, into arrays with room for them. @param from the place of the first pair in the arrays */
  pairs(low: Int32Array, high: Int32Array, from: number, count: number): void {
    if (!this.#has(8 * count)) return;
    for (let i = from; i < from + count; i++) {
      low[i] = this.#view.getInt32(this.#at, true);
      high[i] = this.#view.getInt32(this.#at + 4, true);
      this.#at += 8;
    }
  }

  /** A finite number from `least` to `most`. */
  float(least: number, most: number): number {
    if (!this.#has(4)) return 0;
    const value = this.#view.getFloat32(this.#at, true);
    this.#at += 4;
    return value >= least && value <= most ? value : this.#fail();
  }

  /** @param most bytes that are allowed */
  text(most: number): string {
    const length = this.varint(most);
    if (!this.#has(length)) return "";
    const from = this.#at;
    this.#at += length;
    return this.#bytes.toString("utf8", from, this.#at);
  }

  /** Whether the next bytes are these; reads as many. */
  matches(wanted: Uint8Array): boolean {
    if (!this.#has(wanted.length)) return false;
    const from = this.#at;
    this.#at += wanted.length;
    return this.#bytes.compare(wanted, 0, wanted.length, from, this.#at) === 0;
  }

  /** The next bytes as hexadecimal digits. */
  hex(length: number): string {
    if (!this.#has(length)) return "";
    const from = this.#at;
    this.#at += length;
    return this.#bytes.toString("hex", from, this.#at);
  }

  #has(more: number): boolean {
    if (this.failed || more > this.left) this.failed = true;
    return !this.failed;
  }

  #fail(): number {
    this.failed = true;
    return 0;
  }
}
