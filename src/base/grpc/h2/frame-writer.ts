import { DEFAULT_FRAME_SIZE, FRAME, FRAME_HEADER } from "./protocol.ts";

/** The target of frames: a socket, or a stand-in for one in tests. */
export interface ByteSink {
  /** @returns false when the writer should wait for the sink */
  write(bytes: Uint8Array): boolean;
  /** Bytes that the sink has taken and not yet given to the system. */
  readonly writableLength: number;
}

/** Bytes gathered before a write in mid-turn. */
export const SLAB_SIZE = 64 * 1024;

/** The most bytes that a loop copies. */
const SHORT = 32;

/** A DATA frame is not begun with less room than this behind its header. */
const LEAST_DATA = 256;

/** While the sink still holds earlier bytes, up to this many are copied, so that the writer keeps its slab. */
const COPY_LIMIT = 16 * 1024;

/** Slabs that no connection needs at the moment. A connection holds one only from its first frame of a turn to the flush. */
const FREE: Buffer[] = [];
const MAX_FREE = 32;

function release(slab: Buffer): void {
  if (FREE.length < MAX_FREE) FREE.push(slab);
}

/** Copies `count` bytes. A call into native code takes as long as a loop over 32 bytes, and a view of a part twice as long. */
function copyInto(to: Buffer, toAt: number, from: Uint8Array, fromAt: number, count: number): void {
  if (count === from.length) to.set(from, toAt);
  else if (count > SHORT) to.set(from.subarray(fromAt, fromAt + count), toAt);
  else for (let i = 0; i < count; i++) to[toAt + i] = from[fromAt + i]!;
}

/**
 * Gathers the frames of one turn of the event loop in a slab and writes them at once. Data is copied into the slab. Up to the
 * 16 KiB of a frame, that costs less than to give pieces to the system one by one.
 */
export class FrameWriter {
  readonly #sink: ByteSink;
  /** All bytes are copied out of the slab: a TLS socket never takes bytes at once. */
  readonly #copies: boolean;
  #slab: Buffer | undefined;
  #at = 0;
  /** The stream whose DATA frame is the last frame in the slab and may grow, 0 = none, and the position of that frame. */
  #open = 0;
  #openAt = 0;

  /** Slabs that the sink still holds. */
  readonly #lent: Buffer[] = [];

  /** The sink is full: only control frames may be added until `unblock`. */
  blocked = false;
  /** The largest frame that the peer accepts, in bytes. */
  maxFrame: number = DEFAULT_FRAME_SIZE;

  /** @param copies whether the sink never takes bytes at once, as TLS: then they are copied out of the slab */
  constructor(sink: ByteSink, copies: boolean) {
    this.#sink = sink;
    this.#copies = copies;
  }

  /**
   * Adds data of a stream, to its last DATA frame if that is still the last frame.
   * @returns how many bytes were taken; fewer than offered only when the sink became full
   */
  data(streamId: number, bytes: Uint8Array, from: number, to: number): number {
    let at = from;
    while (at < to) {
      let room = this.#open === streamId ? this.maxFrame - (this.#at - this.#openAt - FRAME_HEADER) : 0;
      if (room > SLAB_SIZE - this.#at) room = SLAB_SIZE - this.#at;
      if (room <= 0) {
        if (this.blocked) break;
        this.header(LEAST_DATA, FRAME.data, 0, streamId);
        this.#open = streamId;
        this.#openAt = this.#at - FRAME_HEADER;
        continue;
      }
      const slab = this.#slab!;
      const taken = to - at < room ? to - at : room;
      copyInto(slab, this.#at, bytes, at, taken);
      at += taken;
      this.#at += taken;
      const size = this.#at - this.#openAt - FRAME_HEADER;
      const open = this.#openAt;
      slab[open] = size >> 16;
      slab[open + 1] = size >> 8;
      slab[open + 2] = size;
    }
    return at - from;
  }

  /** Adds a whole frame. */
  frame(type: number, flags: number, streamId: number, payload: Uint8Array): void {
    this.header(payload.length, type, flags, streamId);
    this.#slab!.set(payload, this.#at);
    this.#at += payload.length;
  }

  /** Adds a frame whose payload is one 32-bit number: WINDOW_UPDATE, RST_STREAM. */
  number(type: number, streamId: number, value: number): void {
    this.header(4, type, 0, streamId);
    this.#uint32(value);
  }

  /** Adds a GOAWAY frame (RFC 9113 6.8). @param text ASCII, for the log of the peer */
  goaway(lastStreamId: number, code: number, text: string): void {
    const debug = Buffer.from(text, "latin1");
    const payload = Buffer.alloc(8 + debug.length);
    payload.writeUInt32BE(lastStreamId, 0);
    payload.writeUInt32BE(code, 4);
    debug.copy(payload, 8);
    this.frame(FRAME.goaway, 0, 0, payload);
  }

  /** Adds a frame header and makes room for `length` bytes behind it. */
  header(length: number, type: number, flags: number, streamId: number): void {
    if (SLAB_SIZE - this.#at < FRAME_HEADER + length) this.flush();
    this.#slab ??= FREE.pop() ?? Buffer.allocUnsafeSlow(SLAB_SIZE);
    const slab = this.#slab;
    const at = this.#at;
    slab[at] = length >> 16;
    slab[at + 1] = length >> 8;
    slab[at + 2] = length;
    slab[at + 3] = type;
    slab[at + 4] = flags;
    this.#at = at + 5;
    this.#uint32(streamId);
    this.#open = 0;
  }

  /** Writes the gathered frames. */
  flush(): void {
    const slab = this.#slab;
    const length = this.#at;
    if (slab === undefined || length === 0) return;
    this.#at = 0;
    this.#open = 0;
    const sink = this.#sink;
    const copied = this.#copies || (sink.writableLength > 0 && length <= COPY_LIMIT);
    const keepsUp = sink.write(copied ? Buffer.from(slab.subarray(0, length)) : slab.subarray(0, length));
    const pending = sink.writableLength > 0;
    if (pending && !keepsUp) this.blocked = true;
    this.#slab = undefined;
    if (!copied && pending) this.#lent.push(slab);
    else release(slab);
    if (!pending && this.#lent.length > 0) this.reclaim();
  }

  /** Takes back the slabs of the sink, which holds nothing any more. */
  reclaim(): void {
    for (const slab of this.#lent) release(slab);
    this.#lent.length = 0;
  }

  #uint32(value: number): void {
    const slab = this.#slab!;
    const at = this.#at;
    slab[at] = value >>> 24;
    slab[at + 1] = value >> 16;
    slab[at + 2] = value >> 8;
    slab[at + 3] = value;
    this.#at = at + 4;
  }
}
