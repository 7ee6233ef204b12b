import { HpackDecoder } from "./hpack-decoder.ts";
import { ERROR, FLAG, MAX_HEADER_LIST } from "./protocol.ts";
import { RequestHead } from "./request-head.ts";

/** CONTINUATION frames per block: a block of the permitted size needs four when its frames are full. */
const MAX_CONTINUATIONS = 64;

/**
 * Puts the header blocks of a connection together from HEADERS and CONTINUATION frames and decodes them. A block in one
 * frame is decoded where it lies. Every block is decoded, whatever becomes of it, because all share the dynamic table.
 */
export class HeaderBlocks {
  /** What the last complete block says. */
  readonly head: RequestHead = new RequestHead();
  /** The stream of the block that is incomplete, 0 = none: only its CONTINUATION may come. */
  streamId = 0;
  /** Whether its HEADERS frame had END_STREAM. */
  endStream = false;

  readonly #decoder = new HpackDecoder();
  #block: Buffer | undefined;
  #filled = 0;
  #continuations = 0;

  /**
   * Takes a HEADERS frame.
   * @returns an error code for the connection; `ERROR.none` = taken, and complete when `streamId` is 0
   */
  headers(flags: number, streamId: number, bytes: Buffer, from: number, to: number): number {
    let at = from;
    let end = to;
    if ((flags & FLAG.padded) !== 0) {
      if (at === end) return ERROR.frameSize;
      end -= bytes[at++]!;
    }
    if ((flags & FLAG.priority) !== 0) at += 5;
    if (at > end) return at > to ? ERROR.frameSize : ERROR.protocol;
    this.endStream = (flags & FLAG.endStream) !== 0;
    if ((flags & FLAG.endHeaders) !== 0) return this.#decode(bytes, at, end);
    this.streamId = streamId;
    this.#block = Buffer.allocUnsafe(MAX_HEADER_LIST);
    this.#filled = bytes.copy(this.#block, 0, at, end);
    this.#continuations = 0;
    return ERROR.none;
  }

  /** Takes a CONTINUATION frame of the incomplete block. @returns as `headers` */
  continuation(flags: number, bytes: Buffer, from: number, to: number): number {
    const block = this.#block!;
    if (++this.#continuations > MAX_CONTINUATIONS) return ERROR.enhanceYourCalm;
    if (this.#filled + to - from > block.length) return ERROR.enhanceYourCalm;
    this.#filled += bytes.copy(block, this.#filled, from, to);
    if ((flags & FLAG.endHeaders) === 0) return ERROR.none;
    this.streamId = 0;
    this.#block = undefined;
    return this.#decode(block, 0, this.#filled);
  }

  #decode(bytes: Buffer, from: number, to: number): number {
    this.head.reset();
    return this.#decoder.decode(bytes, from, to, this.head) ? ERROR.none : ERROR.compression;
  }
}
