import { FRAME_PREFIX } from "../frames.ts";
import { COPY_LIMIT } from "./outflow.ts";

const EMPTY = Buffer.alloc(0);

/**
 * Messages are copied out of the read buffer side by side; larger ones get a buffer of their own. A handler may pass on the smaller
 * ones from where they lie, so that output which waits must copy them, too.
 */
const SLAB_SIZE = 64 * 1024;
const SLAB_LIMIT: typeof COPY_LIMIT = COPY_LIMIT;
let slab = EMPTY;
let slabAt = 0;

/** Messages that were given back. They are too large for the slab, and at most `SPARE_SIZE`: together at most 4 MiB. */
const SPARE: Buffer[] = [];
const SPARE_SIZE = 128 * 1024;
const MAX_SPARES = 32;

/**
 * Memory for a message that is too large for the slab. The pieces of a body have mostly the same size, so the memory of the last
 * one is used again: bodies would otherwise leave all their bytes once more as garbage outside the heap.
 */
function memoryFor(length: number): Buffer {
  const spare = length <= SPARE_SIZE ? SPARE.pop() : undefined;
  if (spare !== undefined) {
    if (spare.length === length) return spare;
    const size = spare.buffer.byteLength;
    // A message that is kept should not keep much more than its own bytes.
    if (length <= size && size <= 2 * length) return Buffer.from(spare.buffer, 0, length);
  }
  return Buffer.allocUnsafeSlow(length);
}

/** A copy of `bytes[from, to)`, at the cost of its bytes. */
export function copyOut(bytes: Buffer, from: number, to: number): Buffer {
  const length = to - from;
  let copy: Buffer;
  if (length > SLAB_LIMIT) {
    copy = memoryFor(length);
  } else {
    if (length > slab.length - slabAt) {
      slab = Buffer.allocUnsafeSlow(SLAB_SIZE);
      slabAt = 0;
    }
    copy = slab.subarray(slabAt, slabAt + length);
    slabAt += length;
  }
  bytes.copy(copy, 0, from, to);
  return copy;
}

/**
 * The buffer has room for this many times the bytes that have arrived, up to the announced length. So an announcement alone is
 * cheap.
 */
const GROWTH = 8;
const FIRST_ROOM = 4096;

/** Why a byte stream cannot be read any further. */
export interface MessageFault {
  readonly tooLarge: boolean;
  readonly text: string;
}

/**
 * Cuts the data of one stream into gRPC messages. It works with positions in the caller's chunk instead of views, so prefix and
 * frame boundaries cost nothing. It copies a message exactly once, out of a chunk that will be overwritten. When the caller
 * returns to the event loop, `keep` copies the unread bytes; the flow-control window bounds them.
 */
export class MessageReader {
  readonly #limit: number;
  #bytes: Buffer = EMPTY;
  #at = 0;
  #end = 0;
  /** Whether `#bytes` is this reader's own copy, which may grow. */
  #kept = false;

  /** Length of the message whose prefix was read; -1 = the prefix comes next. */
  #length = -1;
  /** Bytes of a prefix read so far, and the part of the length that they contain. */
  #prefixBytes = 0;
  #prefixLength = 0;
  /** The part of a message that began in an earlier chunk. */
  #partial: Buffer = EMPTY;
  #filled = 0;
  /** The message last returned, if its memory is its own. */
  #last: Buffer | undefined;

  /** Whether the message last returned had its compressed flag set. */
  compressed = false;
  /** Set once, when the bytes can no longer be read. */
  fault: MessageFault | undefined;

  /** @param limit the largest message in bytes, before decompression */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Bytes that were fed and not yet read. */
  get unread(): number {
    return this.#end - this.#at;
  }

  /** Whether the bytes read so far end in the middle of a message. Valid after `next` has returned undefined. */
  get midMessage(): boolean {
    return this.#length >= 0 || this.#prefixBytes > 0;
  }

  /** Offers `bytes[from, to)`, which must stay unchanged until `keep`. */
  feed(bytes: Buffer, from: number, to: number): void {
    if (this.#end > this.#at) {
      this.#append(bytes, from, to);
      return;
    }
    this.#bytes = bytes;
    this.#at = from;
    this.#end = to;
    this.#kept = false;
  }

  /** Copies the unread bytes, or releases the chunk when there are none. */
  keep(): void {
    if (this.#at === this.#end) {
      this.#bytes = EMPTY;
      this.#at = 0;
      this.#end = 0;
    } else if (!this.#kept) {
      this.#move(this.#end - this.#at);
    }
  }

  /** Drops all unread bytes. */
  clear(): void {
    this.#at = this.#end;
    this.#partial = EMPTY;
    this.keep();
  }

  /** Takes back the message last returned, of which nobody keeps a view. Another message changes nothing. */
  recycle(message: Uint8Array): void {
    if (message !== this.#last) return;
    if (message.length <= SPARE_SIZE && SPARE.length < MAX_SPARES) SPARE.push(this.#last);
    this.#last = undefined;
  }

  /** The chunk that was fed last. */
  get chunk(): Buffer {
    return this.#bytes;
  }

  /**
   * Reads the next message where it lies, if it is small, and the chunk has all of it.
   * @returns its beginning in `chunk`, where it ends at `position`; -1 = `next` reads it
   */
  inPlace(): number {
    if (this.#kept || this.#filled > 0 || (this.#length < 0 && !this.#readPrefix())) return -1;
    const length = this.#length;
    const from = this.#at;
    if (length > SLAB_LIMIT || this.#end - from < length) return -1;
    this.#last = undefined;
    this.#at = from + length;
    this.#length = -1;
    return from;
  }

  /** The position in `chunk` behind the bytes that were read. */
  get position(): number {
    return this.#at;
  }

  /** The next complete message, or undefined until more is fed; undefined for ever after a fault. */
  next(): Buffer | undefined {
    this.#last = undefined;
    if (this.#length < 0 && !this.#readPrefix()) return undefined;
    const length = this.#length;
    const there = this.#end - this.#at;
    const wanted = length - this.#filled;
    const from = this.#at;
    if (this.#filled === 0 && there >= length) {
      this.#at = from + length;
      this.#length = -1;
      if (this.#kept) return this.#bytes.subarray(from, from + length);
      const copy = copyOut(this.#bytes, from, from + length);
      if (length > SLAB_LIMIT) this.#last = copy;
      return copy;
    }
    if (there === 0) return undefined;
    const taken = there < wanted ? there : wanted;
    this.#reserve(this.#filled + taken, length);
    this.#bytes.copy(this.#partial, this.#filled, from, from + taken);
    this.#filled += taken;
    this.#at = from + taken;
    if (this.#filled < length) return undefined;
    const whole = this.#partial;
    this.#partial = EMPTY;
    this.#filled = 0;
    this.#length = -1;
    if (length > SLAB_LIMIT) this.#last = whole;
    return whole;
  }

  #readPrefix(): boolean {
    if (this.fault !== undefined) return false;
    const bytes = this.#bytes;
    let flag = 0;
    while (this.#prefixBytes < FRAME_PREFIX) {
      if (this.#at === this.#end) return false;
      const byte = bytes[this.#at++]!;
      if (this.#prefixBytes++ > 0) this.#prefixLength = this.#prefixLength * 256 + byte;
      else {
        flag = byte;
        this.compressed = flag === 1;
        this.#prefixLength = 0;
        if (flag > 1) {
          this.fault = { tooLarge: false, text: `compressed flag of a gRPC message is ${flag}, not 0 or 1` };
          return false;
        }
      }
    }
    this.#prefixBytes = 0;
    const length = this.#prefixLength;
    if (length > this.#limit) {
      this.fault = {
        tooLarge: true,
        text: `received a gRPC message of ${length} bytes, the limit is ${this.#limit}`,
      };
      return false;
    }
    this.#length = length;
    return true;
  }

  #reserve(needed: number, length: number): void {
    if (this.#partial.length >= needed) return;
    const room = Math.min(length, Math.max(GROWTH * needed, FIRST_ROOM));
    const larger = room === length && length > SLAB_LIMIT ? memoryFor(length) : Buffer.allocUnsafeSlow(room);
    this.#partial.copy(larger, 0, 0, this.#filled);
    this.#partial = larger;
  }

  #append(bytes: Buffer, from: number, to: number): void {
    const count = to - from;
    // Bytes before `#at` may already be messages of a caller, so they are never overwritten.
    if (!this.#kept || this.#bytes.length - this.#end < count) this.#move(2 * (this.#end - this.#at + count));
    bytes.copy(this.#bytes, this.#end, from, to);
    this.#end += count;
  }

  /** Moves the unread bytes to a buffer of this reader with room for `capacity` bytes. */
  #move(capacity: number): void {
    const own = Buffer.allocUnsafeSlow(capacity);
    this.#bytes.copy(own, 0, this.#at, this.#end);
    this.#end -= this.#at;
    this.#at = 0;
    this.#bytes = own;
    this.#kept = true;
  }
}
