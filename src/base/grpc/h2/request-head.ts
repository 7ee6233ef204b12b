import { type HeaderField, type HeaderSink, HpackDecoder } from "./hpack-decoder.ts";
import { ERROR, FLAG, MAX_HEADER_LIST } from "./protocol.ts";
import { COST } from "./turns.ts";

/** The fields of a request that a gRPC server needs, gathered one by one. One object serves a whole connection. */
export class RequestHead implements HeaderSink {
  method = "";
  path = "";
  contentType = "";
  encoding = "";
  /** The request violates RFC 9113, section 8: a stream error. */
  malformed = false;
  #scheme = "";
  #regular = false;
  #size = 0;

  /** Forgets the last request. */
  reset(): void {
    this.method = "";
    this.path = "";
    this.contentType = "";
    this.encoding = "";
    this.malformed = false;
    this.#scheme = "";
    this.#regular = false;
    this.#size = 0;
  }

  /** Larger than this server accepts. */
  get tooLarge(): boolean {
    return this.#size > MAX_HEADER_LIST;
  }

  /** Whether the pseudo fields that every request has are present. */
  get complete(): boolean {
    return this.method !== "" && this.path !== "" && this.#scheme !== "";
  }

  /** Whether these are trailers: no pseudo fields at all. */
  get trailers(): boolean {
    return this.method === "" && this.path === "" && this.#scheme === "";
  }

  field(field: HeaderField): void {
    const { name, value } = field;
    this.#size += field.size;
    if (!field.legal) this.malformed = true;
    if (name.charCodeAt(0) === 0x3a) {
      this.#pseudo(name, value);
      return;
    }
    this.#regular = true;
    switch (name) {
      case "content-type":
        this.contentType = value;
        break;
      case "grpc-encoding":
        this.encoding = value;
        break;
    }
  }

  #pseudo(name: string, value: string): void {
    if (this.#regular) this.malformed = true;
    switch (name) {
      case ":method":
        if (this.method !== "") this.malformed = true;
        this.method = value;
        return;
      case ":path":
        if (this.path !== "") this.malformed = true;
        this.path = value;
        return;
      case ":scheme":
        if (this.#scheme !== "") this.malformed = true;
        this.#scheme = value;
        return;
      case ":authority":
        return;
      default:
        this.malformed = true;
    }
  }
}

/** Most CONTINUATION frames per block. A block of the permitted size needs four when its frames are full. */
const MAX_CONTINUATIONS = 64;

/** 16 bytes of a header block cost as much to decode as a small frame to read. */
const HEADER_UNIT_SHIFT = 4;

const NOTHING = Buffer.alloc(0);

/**
 * Joins the header blocks of a connection from HEADERS and CONTINUATION frames and decodes them. A block in one frame is
 * decoded in place. Every block is decoded, even for a refused request, because all blocks share the dynamic table.
 */
export class HeaderBlocks {
  /** The contents of the last complete block. */
  readonly head: RequestHead = new RequestHead();
  /** The stream of the incomplete block, 0 = none: only its CONTINUATION may follow. */
  streamId = 0;
  /** Whether its HEADERS frame had END_STREAM. */
  endStream = false;
  /** Cost of the last frame, in units of work. */
  cost = 0;

  readonly #decoder = new HpackDecoder();
  #block = NOTHING;
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
    this.cost = 0;
    this.endStream = (flags & FLAG.endStream) !== 0;
    if ((flags & FLAG.endHeaders) !== 0) return this.#decode(bytes, at, end);
    this.streamId = streamId;
    this.#block = NOTHING;
    this.#filled = 0;
    this.#continuations = 0;
    this.#append(bytes, at, end);
    return ERROR.none;
  }

  /** Takes a CONTINUATION frame of the incomplete block. @returns as `headers` */
  continuation(flags: number, bytes: Buffer, from: number, to: number): number {
    this.cost = 0;
    if (++this.#continuations > MAX_CONTINUATIONS) return ERROR.enhanceYourCalm;
    if (this.#filled + to - from > MAX_HEADER_LIST) return ERROR.enhanceYourCalm;
    this.#append(bytes, from, to);
    if ((flags & FLAG.endHeaders) === 0) return ERROR.none;
    this.streamId = 0;
    const block = this.#block;
    this.#block = NOTHING;
    return this.#decode(block, 0, this.#filled);
  }

  /** The buffer grows with its content: nine bytes of HEADERS must not cost 64 KiB. */
  #append(bytes: Buffer, from: number, to: number): void {
    const needed = this.#filled + to - from;
    if (needed > this.#block.length) {
      const larger = Buffer.allocUnsafe(Math.min(2 * needed, MAX_HEADER_LIST));
      this.#block.copy(larger, 0, 0, this.#filled);
      this.#block = larger;
    }
    this.#filled += bytes.copy(this.#block, this.#filled, from, to);
  }

  #decode(bytes: Buffer, from: number, to: number): number {
    this.head.reset();
    this.cost = COST.headers + ((to - from) >> HEADER_UNIT_SHIFT);
    return this.#decoder.decode(bytes, from, to, this.head);
  }
}
