import * as zlib from "node:zlib";

/** The first buffer for a body in several pieces, bytes. */
const FIRST_ROOM = 16 * 1024;
/** Most bytes that a mere announcement of a length gets. */
const ANNOUNCED_ROOM = 1024 * 1024;

/**
 * Joins the pieces of a body. One piece is kept as it is. Several pieces are copied into one buffer that doubles, so a body of
 * single bytes costs no more memory than one in large pieces.
 */
export class BodyCollector {
  size = 0;
  #bytes: Uint8Array = new Uint8Array(0);

  /** @param announced length of the whole body in bytes; NaN when unknown */
  add(piece: Uint8Array, announced: number): void {
    const { size } = this;
    this.size += piece.length;
    if (size === 0) {
      this.#bytes = piece;
      return;
    }
    if (this.size > this.#bytes.length) this.#grow(size, announced);
    this.#bytes.set(piece, size);
  }

  /** The bytes so far; nothing may be added afterwards. */
  bytes(): Uint8Array {
    return this.#bytes.length === this.size ? this.#bytes : this.#bytes.subarray(0, this.size);
  }

  #grow(used: number, announced: number): void {
    let room = Math.max(FIRST_ROOM, this.size, 2 * this.#bytes.length);
    if (announced >= this.size && (announced <= ANNOUNCED_ROOM || announced < room)) room = announced;
    const grown = Buffer.allocUnsafe(room);
    grown.set(used === this.#bytes.length ? this.#bytes : this.#bytes.subarray(0, used));
    this.#bytes = grown;
  }
}

interface Codec {
  readonly sync: (body: Uint8Array, options: zlib.ZlibOptions) => Buffer;
  readonly later: (
    body: Uint8Array,
    options: zlib.ZlibOptions,
    callback: (error: Error | null, content: Buffer) => void,
  ) => void;
}

const GZIP: Codec = { sync: zlib.gunzipSync, later: zlib.gunzip };
const CODECS: ReadonlyMap<string, Codec> = new Map<string, Codec>([
  ["gzip", GZIP],
  ["x-gzip", GZIP],
  ["br", { sync: zlib.brotliDecompressSync, later: zlib.brotliDecompress }],
  ["deflate", { sync: zlib.inflateSync, later: zlib.inflate }],
]);
/** Some servers send a bare deflate stream as `deflate`: it has no zlib header, whose low four bits are 8. */
const RAW_DEFLATE: Codec = { sync: zlib.inflateRawSync, later: zlib.inflateRaw };

/** The one coding that requests ask for. */
export const ACCEPTED_CODING = "gzip";

/**
 * Compressed bodies up to this size are decoded on the spot. For the usual answer of some kilobytes that takes a fraction of a
 * trip to a worker thread. At the best ratio of deflate, 1:1032, the limit means 16 MiB or some 10 ms.
 */
const ON_THE_SPOT = 16 * 1024;
const SMALL_CHUNK = 16 * 1024;
const LARGE_CHUNK = 64 * 1024;

/** The content of a body, or why there is none. */
export type Decoded =
  | { readonly kind: "content"; readonly body: Uint8Array }
  | { readonly kind: "broken"; readonly message: string; readonly tooLong: boolean };

/**
 * Takes the `Content-Encoding` off a body: gzip, deflate and br. A body with another coding stays as it is: only the message's
 * own headers can have asked for it.
 * @param limit the longest content in bytes
 * @param done called once, at once or later
 */
export function decodeBody(body: Uint8Array, coding: string, limit: number, done: (decoded: Decoded) => void): void {
  const codec = codecOf(coding, body);
  if (codec === undefined || body.length === 0) {
    done({ kind: "content", body });
    return;
  }
  const options = { maxOutputLength: limit, chunkSize: body.length <= ON_THE_SPOT ? SMALL_CHUNK : LARGE_CHUNK };
  if (body.length > ON_THE_SPOT) {
    codec.later(body, options, (error, content) =>
      done(error === null ? { kind: "content", body: content } : broken(error, coding, limit)),
    );
    return;
  }
  let decoded: Decoded;
  try {
    decoded = { kind: "content", body: codec.sync(body, options) };
  } catch (error) {
    decoded = broken(error as Error, coding, limit);
  }
  done(decoded);
}

function codecOf(coding: string, body: Uint8Array): Codec | undefined {
  const codec = CODECS.get(coding);
  return coding === "deflate" && (body[0]! & 0x0f) !== 8 ? RAW_DEFLATE : codec;
}

function broken(error: NodeJS.ErrnoException, coding: string, limit: number): Decoded {
  const tooLong = error.code === "ERR_BUFFER_TOO_LARGE";
  const message = tooLong ? longerThan(limit) : `the body is not valid ${coding}: ${error.message}`;
  return { kind: "broken", message, tooLong };
}

/** @param limit bytes */
export function longerThan(limit: number): string {
  return `the body is longer than ${limit} bytes`;
}
