import { SluiceError } from "../inference/errors.ts";
import type { Writer } from "./protobuf.ts";

/** Bytes in front of every gRPC message: one compressed flag, four of length, most significant first. */
export const FRAME_PREFIX = 5;

/** The default limit for one inbound message: 64 MiB (docs/spec/decisions.md#sizes). */
export const DEFAULT_MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

const EMPTY = Buffer.alloc(0);

/** First size of the buffer for a message that spans chunks, in bytes. It doubles from there up to the announced length. */
const FIRST_PARTIAL = 4096;

/** `message` with its prefix, uncompressed. Copies; the hot path writes prefix and message into one buffer instead. */
export function frameMessage(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(FRAME_PREFIX + message.length);
  framed[0] = 0;
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, FRAME_PREFIX);
  return framed;
}

/**
 * Writes the prefix in front of the message that was just written.
 * @param following bytes of the message that are sent right after the writer's, without being copied into it
 */
export function prependPrefix(writer: Writer, following = 0): void {
  writer.uint32be(writer.length + following);
  writer.byte(0);
}

/**
 * Cuts a byte stream into gRPC messages. Chunks go in as they arrive and messages come out one at a time, so a reader that
 * pauses simply stops asking. A message within one chunk is a view of that chunk. Any other message is assembled in a buffer
 * that grows with the bytes that arrive. So neither an announced length alone nor tiny chunks cost memory.
 */
export class Deframer {
  readonly #limit: number;
  #chunk: Buffer = EMPTY;
  /** Consumed bytes of `#chunk`. */
  #at = 0;
  /** Chunks behind `#chunk`, pushed while the reader paused. */
  readonly #waiting: Buffer[] = [];

  /** Length of the message whose prefix was read; -1 = the prefix comes next. */
  #length = -1;
  #compressed = false;
  /** Prefix or message that began in an earlier chunk, and how many of its bytes have arrived. */
  #partial: Buffer = EMPTY;
  #filled = 0;

  /** @param limit the largest message in bytes, before decompression */
  constructor(limit: number = DEFAULT_MAX_MESSAGE_BYTES) {
    this.#limit = limit;
  }

  /** Whether the message last returned by `next` had its compressed flag set. */
  get compressed(): boolean {
    return this.#compressed;
  }

  /** Whether the bytes consumed so far end in the middle of a message. Valid after `next` has returned undefined. */
  get midMessage(): boolean {
    return this.#length >= 0 || this.#filled > 0;
  }

  /** Takes `chunk` by reference. */
  push(chunk: Uint8Array): void {
    const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    if (this.#at === this.#chunk.length && this.#waiting.length === 0) {
      this.#chunk = bytes;
      this.#at = 0;
    } else {
      this.#waiting.push(bytes);
    }
  }

  /**
   * The next complete message, or undefined until more is pushed.
   * @throws SluiceError GRPC_MESSAGE_TOO_LARGE as soon as a prefix announces more than the limit; GRPC_FRAME_MALFORMED for a
   * compressed flag that is neither 0 nor 1. After either error the byte stream cannot be read any further.
   */
  next(): Buffer | undefined {
    if (this.#length < 0 && !this.#readPrefix()) return undefined;
    const message = this.#read(this.#length);
    if (message !== undefined) this.#length = -1;
    return message;
  }

  #readPrefix(): boolean {
    const prefix = this.#read(FRAME_PREFIX);
    if (prefix === undefined) return false;
    const flag = prefix[0]!;
    if (flag > 1) {
      throw new SluiceError("GRPC_FRAME_MALFORMED", `compressed flag of a gRPC message is ${flag}, not 0 or 1`);
    }
    const length = prefix[1]! * 0x1000000 + ((prefix[2]! << 16) | (prefix[3]! << 8) | prefix[4]!);
    if (length > this.#limit) {
      throw new SluiceError(
        "GRPC_MESSAGE_TOO_LARGE",
        `received a gRPC message of ${length} bytes, the limit is ${this.#limit}`,
      );
    }
    this.#compressed = flag === 1;
    this.#length = length;
    return true;
  }

  /** The next `length` bytes, as a view when they are within one chunk; undefined until all of them have arrived. */
  #read(length: number): Buffer | undefined {
    while (this.#filled < length) {
      const available = this.#chunk.length - this.#at;
      if (available === 0) {
        const following = this.#waiting.shift();
        if (following === undefined) {
          // An exhausted chunk must not keep its socket buffer alive until the next chunk arrives.
          this.#chunk = EMPTY;
          this.#at = 0;
          return undefined;
        }
        this.#chunk = following;
        this.#at = 0;
        continue;
      }
      const wanted = length - this.#filled;
      const from = this.#at;
      if (this.#filled === 0 && available >= wanted) {
        this.#at = from + wanted;
        return this.#chunk.subarray(from, from + wanted);
      }
      const taken = Math.min(available, wanted);
      this.#grow(this.#filled + taken, length);
      this.#chunk.copy(this.#partial, this.#filled, from, from + taken);
      this.#filled += taken;
      this.#at = from + taken;
    }
    const whole = this.#partial.subarray(0, length);
    this.#partial = EMPTY;
    this.#filled = 0;
    return whole;
  }

  #grow(needed: number, length: number): void {
    if (this.#partial.length >= needed) return;
    const larger = Buffer.allocUnsafeSlow(Math.min(length, Math.max(needed, 2 * this.#partial.length, FIRST_PARTIAL)));
    this.#partial.copy(larger, 0, 0, this.#filled);
    this.#partial = larger;
  }
}

/**
 * `bytes`, or a copy when they are a small view of a much larger buffer. A kilobyte that is kept for long must not hold the 64
 * KiB of its socket read.
 */
export function detach(bytes: Uint8Array): Uint8Array {
  return bytes.buffer.byteLength <= 2 * bytes.length + 1024 ? bytes : Uint8Array.prototype.slice.call(bytes);
}
