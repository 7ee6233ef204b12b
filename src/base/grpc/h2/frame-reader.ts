import { DEFAULT_FRAME_SIZE, ERROR, FLAG, FRAME, FRAME_HEADER, PREFACE, uint32 } from "./protocol.ts";

/** Receives frames as they are read. Positions are into `bytes`, which is valid during the call. */
export interface FrameSink {
  /** A whole frame of any type but DATA. */
  frame(type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number): void;
  /** A DATA frame begins. @param length its size in the flow-control windows: payload with padding */
  dataStart(streamId: number, length: number): void;
  /** Some data of the DATA frame, as it arrives. */
  data(bytes: Buffer, from: number, to: number): void;
  /** The DATA frame is complete. */
  dataEnd(flags: number): void;
  /** A connection error; `failed` is true from here on. */
  fail(code: number, text: string): void;
  readonly failed: boolean;
  /** The reader should read no further frame for now. */
  readonly spent: boolean;
}

/** The next part of the byte stream. */
const PHASE = { preface: 0, header: 1, payload: 2, data: 3, padding: 4 } as const;

/**
 * Cuts the bytes of a client into frames. Only parts that span chunks are copied: a frame header, and the payload of frames
 * other than DATA, at most 16 KiB. The data of a DATA frame is passed on piece by piece.
 */
export class FrameReader {
  readonly #sink: FrameSink;
  /** A frame header, or a payload, that began in an earlier chunk, and how many of its bytes have arrived. */
  readonly #head: Buffer = Buffer.allocUnsafe(FRAME_HEADER);
  #payload: Buffer = this.#head;
  #filled = 0;
  #phase: number = PHASE.preface;

  #type = 0;
  #flags = 0;
  #streamId = 0;
  /** Payload bytes still to come, without padding. */
  #left = 0;
  #padding = 0;
  /** The first payload byte, the length of the padding, has not arrived yet. */
  #padLengthDue = false;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Whether the client has sent the preface. */
  get prefaced(): boolean {
    return this.#phase !== PHASE.preface;
  }

  /**
   * Reads `chunk` from `from` on, to its end unless the connection fails or the sink has had enough.
   * @returns the position behind the last byte that was read
   */
  push(chunk: Buffer, from = 0): number {
    const sink = this.#sink;
    const end = chunk.length;
    let at = from;
    while (at < end && !sink.failed && !sink.spent) {
      switch (this.#phase) {
        case PHASE.header:
          if (this.#filled === 0 && end - at >= FRAME_HEADER) {
            at = this.#begin(chunk, at, chunk, at + FRAME_HEADER, end);
          } else {
            const taken = Math.min(end - at, FRAME_HEADER - this.#filled);
            chunk.copy(this.#head, this.#filled, at, at + taken);
            this.#filled += taken;
            at += taken;
            if (this.#filled === FRAME_HEADER) at = this.#begin(this.#head, 0, chunk, at, end);
          }
          break;
        case PHASE.data:
          at = this.#readData(chunk, at, end);
          break;
        case PHASE.padding: {
          const taken = Math.min(end - at, this.#padding);
          this.#padding -= taken;
          at += taken;
          if (this.#padding === 0) this.#endData();
          break;
        }
        case PHASE.payload: {
          const taken = Math.min(end - at, this.#left - this.#filled);
          chunk.copy(this.#payload, this.#filled, at, at + taken);
          this.#filled += taken;
          at += taken;
          if (this.#filled === this.#left) {
            const payload = this.#payload;
            this.#payload = this.#head;
            this.#next();
            sink.frame(this.#type, this.#flags, this.#streamId, payload, 0, this.#left);
          }
          break;
        }
        default:
          at = this.#readPreface(chunk, at, end);
      }
    }
    return at;
  }

  #readPreface(chunk: Buffer, at: number, end: number): number {
    let position = at;
    while (position < end && this.#filled < PREFACE.length) {
      if (chunk[position++] !== PREFACE[this.#filled++]) {
        this.#sink.fail(ERROR.protocol, "the connection does not begin with the HTTP/2 preface");
        return end;
      }
    }
    if (this.#filled === PREFACE.length) this.#next();
    return position;
  }

  #next(): void {
    this.#phase = PHASE.header;
    this.#filled = 0;
  }

  /**
   * Begins the frame whose header is at `head[headAt]` and whose payload begins at `chunk[at]`.
   * @returns the position in `chunk` where reading continues
   */
  #begin(head: Buffer, headAt: number, chunk: Buffer, at: number, end: number): number {
    const length = (head[headAt]! << 16) | (head[headAt + 1]! << 8) | head[headAt + 2]!;
    const type = head[headAt + 3]!;
    const flags = head[headAt + 4]!;
    const streamId = uint32(head, headAt + 5) & 0x7fffffff;
    this.#filled = 0;
    if (length > DEFAULT_FRAME_SIZE) {
      this.#sink.fail(ERROR.frameSize, `a frame of ${length} bytes, the limit is ${DEFAULT_FRAME_SIZE}`);
      return end;
    }
    if (type !== FRAME.data) {
      this.#phase = PHASE.header;
      if (end - at >= length) {
        this.#sink.frame(type, flags, streamId, chunk, at, at + length);
        return at + length;
      }
      this.#type = type;
      this.#flags = flags;
      this.#streamId = streamId;
      this.#left = length;
      this.#payload = Buffer.allocUnsafe(length);
      this.#phase = PHASE.payload;
      return at;
    }
    this.#sink.dataStart(streamId, length);
    this.#flags = flags;
    this.#left = length;
    this.#padding = 0;
    this.#phase = PHASE.data;
    this.#padLengthDue = (flags & FLAG.padded) !== 0;
    if (this.#padLengthDue && length === 0) this.#sink.fail(ERROR.frameSize, "a padded frame without its pad length");
    else if (length === 0) this.#endData();
    else if (at < end && !this.#padLengthDue) return this.#readData(chunk, at, end);
    return at;
  }

  #readData(chunk: Buffer, from: number, end: number): number {
    let at = from;
    if (this.#padLengthDue) {
      this.#padLengthDue = false;
      this.#padding = chunk[at++]!;
      this.#left -= 1 + this.#padding;
      if (this.#left < 0) {
        this.#sink.fail(ERROR.protocol, "padding longer than its frame");
        return end;
      }
    }
    const taken = Math.min(end - at, this.#left);
    if (taken > 0) {
      this.#left -= taken;
      this.#sink.data(chunk, at, at + taken);
    }
    if (this.#left === 0) {
      if (this.#padding > 0) this.#phase = PHASE.padding;
      else this.#endData();
    }
    return at + taken;
  }

  #endData(): void {
    this.#next();
    this.#sink.dataEnd(this.#flags);
  }
}
