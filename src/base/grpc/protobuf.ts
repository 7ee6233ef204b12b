import { SluiceError } from "../inference/errors.ts";

/** Wire types of the protobuf encoding. */
export const WIRE = { varint: 0, fixed64: 1, bytes: 2, startGroup: 3, endGroup: 4, fixed32: 5 } as const;

/** Groups nested deeper than this are refused, as in the reference decoders. */
const MAX_GROUP_DEPTH = 100;

function malformed(what: string, at: number): SluiceError {
  return new SluiceError("PROTOBUF_MALFORMED", `malformed protobuf: ${what} at byte ${at}`);
}

/**
 * Reads protobuf fields from a stretch of bytes. Every method throws SluiceError PROTOBUF_MALFORMED when it would read beyond
 * `end`.
 */
export class Reader {
  readonly bytes: Buffer;
  position: number;
  /** End of the message that is being read; set and restored around nested messages. */
  end: number;

  constructor(bytes: Uint8Array, position = 0, end: number = bytes.length) {
    this.bytes = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.position = position;
    this.end = end;
  }

  /** Whether fields are left. */
  get more(): boolean {
    return this.position < this.end;
  }

  /**
   * A varint of up to 64 bits as a number: exact up to 2^53, above it the nearest double. A negative int64 is the unsigned
   * value of its 64 bits.
   */
  varint(): number {
    const { bytes, end } = this;
    let at = this.position;
    if (at < end) {
      const first = bytes[at]!;
      if (first < 0x80) {
        this.position = at + 1;
        return first;
      }
    }
    let value = 0;
    let scale = 1;
    for (let count = 0; count < 10; count++) {
      if (at >= end) throw malformed("varint cut off", at);
      const byte = bytes[at++]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        this.position = at;
        return value;
      }
      scale *= 128;
    }
    throw malformed("varint longer than 10 bytes", this.position);
  }

  /** A field's tag: number << 3 | wire type. Field number 0 and numbers above 2^29 - 1 are malformed. */
  tag(): number {
    const at = this.position;
    const tag = this.varint();
    if (tag < 8 || tag > 0xffffffff) throw malformed(`field number ${Math.floor(tag / 8)}`, at);
    return tag;
  }

  bool(): boolean {
    return this.varint() !== 0;
  }

  double(): number {
    const at = this.position;
    if (this.end - at < 8) throw malformed("fixed64 cut off", at);
    this.position = at + 8;
    return this.bytes.readDoubleLE(at);
  }

  /** The length of a length-delimited field, checked against `end`. The position is then at its first byte. */
  length(): number {
    const at = this.position;
    const length = this.varint();
    if (length > this.end - this.position) throw malformed(`length ${length} runs past the end`, at);
    return length;
  }

  /**
   * Narrows `end` to the next nested message.
   * @returns the `end` to restore once the nested message is read to its end
   */
  enter(): number {
    const outer = this.end;
    const length = this.length();
    this.end = this.position + length;
    return outer;
  }

  /** A length-delimited field as a view of the input, never a copy. */
  view(): Buffer {
    const length = this.length();
    const from = this.position;
    this.position = from + length;
    return this.bytes.subarray(from, from + length);
  }

  /** A length-delimited field as text; bytes that are no UTF-8 become U+FFFD. */
  utf8(): string {
    const length = this.length();
    const from = this.position;
    this.position = from + length;
    return this.bytes.toString("utf8", from, this.position);
  }

  /** Skips the value of the field whose tag was just read, groups included. */
  skip(tag: number): void {
    switch (tag & 7) {
      case WIRE.varint:
        this.varint();
        return;
      case WIRE.fixed64:
        this.#advance(8);
        return;
      case WIRE.bytes:
        this.#advance(this.length());
        return;
      case WIRE.startGroup:
        this.#skipGroup(tag);
        return;
      case WIRE.fixed32:
        this.#advance(4);
        return;
      default:
        throw malformed(`wire type ${tag & 7}`, this.position);
    }
  }

  #advance(count: number): void {
    if (count > this.end - this.position) throw malformed("field cut off", this.position);
    this.position += count;
  }

  /** Iterative, because the sender chooses the depth of groups. */
  #skipGroup(tag: number): void {
    const open = [Math.floor(tag / 8)];
    while (open.length > 0) {
      if (!this.more) throw malformed("group without its end", this.position);
      const inner = this.tag();
      const field = Math.floor(inner / 8);
      if ((inner & 7) === WIRE.startGroup) {
        if (open.length >= MAX_GROUP_DEPTH) throw malformed("groups nested too deeply", this.position);
        open.push(field);
      } else if ((inner & 7) === WIRE.endGroup) {
        if (open.pop() !== field) throw malformed(`end of a group that is not open (field ${field})`, this.position);
      } else {
        this.skip(inner);
      }
    }
  }
}

/** Characters. A loop writes a shorter text faster than a call into native code. */
const SHORT = 16;

/** Bytes. A loop copies fewer of them faster than a call into native code with a view for it. */
const MEDIUM = 96;

/** The target of framed bytes: a gRPC stream. */
export interface FramedSink {
  /** Takes `bytes[from, to)`. @returns false when the writer should wait */
  sendFramed(bytes: Uint8Array, from?: number, to?: number): boolean;
}

/** Bytes set aside at a time: about a hundred replies share one. */
const SLAB = 16 * 1024;

/**
 * Writes protobuf messages **back to front**: the last field first, and of each field the value, then its length, then its tag.
 * So the length of a nested message is known when it is written, and nothing is measured or moved beforehand.
 *
 * Messages are cut out of shared slabs. A finished message never changes again and may be sent without copying.
 */
export class Writer {
  #slab: Buffer = Buffer.allocUnsafeSlow(SLAB);
  /** The first byte written; everything before it is free. */
  #start = SLAB;
  #end = SLAB;

  /** Starts a message. Bytes of an unfinished earlier message are dropped. */
  begin(): void {
    this.#end = this.#start;
  }

  /** Bytes of the current message written so far. Taken before a nested message, it is the mark for `close`. */
  get length(): number {
    return this.#end - this.#start;
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#slab[--this.#start] = value;
  }

  /** @param value an integer from 0 to 2^53 - 1 */
  varint(value: number): void {
    if (value < 0x80) {
      this.byte(value);
      return;
    }
    let size = 1;
    for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 128)) size++;
    this.#reserve(size);
    this.#start -= size;
    let at = this.#start;
    let rest = value;
    while (rest >= 0x80) {
      this.#slab[at++] = (rest % 128) | 0x80;
      rest = Math.floor(rest / 128);
    }
    this.#slab[at] = rest;
  }

  double(value: number): void {
    this.#reserve(8);
    this.#start -= 8;
    this.#slab.writeDoubleLE(value, this.#start);
  }

  /** Four bytes, most significant first. */
  uint32be(value: number): void {
    this.#reserve(4);
    this.#start -= 4;
    this.#slab.writeUInt32BE(value, this.#start);
  }

  bytes(value: Uint8Array): void {
    this.#reserve(value.length);
    this.#start -= value.length;
    this.#slab.set(value, this.#start);
  }

  /** The memory of the messages. Replaced when it is full: `claim` first. */
  get memory(): Uint8Array {
    return this.#slab;
  }

  /** Makes room for bytes that the caller writes. @returns the place of the first of them in `memory` */
  claim(count: number): number {
    this.#reserve(count);
    this.#start -= count;
    return this.#start;
  }

  /** Writes `value[from, to)`. */
  range(value: Uint8Array, from: number, to: number): void {
    const length = to - from;
    this.#reserve(length);
    this.#start -= length;
    const slab = this.#slab;
    const start = this.#start;
    if (length > MEDIUM) slab.set(value.subarray(from, to), start);
    else for (let i = 0; i < length; i++) slab[start + i] = value[from + i]!;
  }

  /** One byte per character: for text known to be ASCII, and for header values, which hold one byte per character. */
  latin1(text: string): void {
    const { length } = text;
    this.#reserve(length);
    this.#start -= length;
    const slab = this.#slab;
    const start = this.#start;
    if (length > SHORT) slab.write(text, start, length, "latin1");
    else for (let i = 0; i < length; i++) slab[start + i] = text.charCodeAt(i);
  }

  utf8(text: string): void {
    const size = Buffer.byteLength(text, "utf8");
    this.#reserve(size);
    this.#start -= size;
    this.#slab.write(text, this.#start, size, "utf8");
  }

  /**
   * Completes a length-delimited field whose value was written since `mark`.
   * @param tag number << 3 | 2
   * @param mark `length` before the value was written
   * @param following bytes of the value that are not written here but sent right after the message
   */
  close(tag: number, mark: number, following = 0): void {
    this.varint(this.length - mark + following);
    this.varint(tag);
  }

  /** The finished message. The bytes belong to the caller. */
  finish(): Buffer {
    const message = this.#slab.subarray(this.#start, this.#end);
    this.#end = this.#start;
    return message;
  }

  /** Sends the finished message, as `finish` and `sendFramed` do, without an object for it. @returns as `sendFramed` */
  sendTo(target: FramedSink): boolean {
    const end = this.#end;
    this.#end = this.#start;
    return target.sendFramed(this.#slab, this.#start, end);
  }

  #reserve(count: number): void {
    if (this.#start >= count) return;
    const written = this.length;
    const size = Math.max(SLAB, 2 * (written + count));
    const larger = Buffer.allocUnsafeSlow(size);
    this.#slab.copy(larger, size - written, this.#start, this.#end);
    this.#slab = larger;
    this.#start = size - written;
    this.#end = size;
  }
}
