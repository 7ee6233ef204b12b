import { type BadRequest, HEAD_TOO_LARGE, malformed, UPGRADE_REFUSED } from "./bad-request.ts";
import { InboundRequest } from "./inbound-request.ts";
import {
  execute,
  FAILED,
  freeParser,
  MOST_BYTES,
  methodOf,
  newParser,
  OK,
  type ParserEvents,
  REQUESTS,
  reasonOf,
  versionOf,
} from "./llhttp.ts";

/** Receives the requests of a connection. */
export interface RequestEvents {
  /** A head is complete. Runs inside the parser. @returns false: the connection takes no more requests, and the parser stops */
  requestHead(request: InboundRequest): boolean;
}

/**
 * Where the parser is. `between`: it waits for the first byte of a request. `head`, `body`: it waits for the rest of that.
 * `stopped`: it reads no more bytes, because they are no request or nobody wants it.
 */
export type ParserState = "between" | "head" | "body" | "stopped";

/** Bytes between two pieces of a chunked body, which are sizes, extensions and line ends. */
const MOST_FRAMING = 16 * 1024;
/** Characters of a piece that are decoded at once: a head seldom has more. */
const DECODED = 1024;
const EMPTY = Buffer.alloc(0);
const NO_HEADERS: string[] = [];
const NO_ENCODING = malformed("the request is not valid HTTP/1.1: Request has invalid `Transfer-Encoding`");
const EXTENSIONS_TOO_LARGE = malformed("the request is not valid HTTP/1.1: Chunk extensions overflow");

/**
 * Reads the requests of one connection, one after the other. The callbacks of the parser only note what they find: the body goes
 * on after the piece, so that nothing of a piece that breaks HTTP is used, and no callback can run another parser.
 */
export class RequestParser implements ParserEvents {
  /** Why the bytes are no request. */
  refusal: BadRequest | undefined;
  readonly #events: RequestEvents;
  readonly #secure: boolean;
  readonly #mostBytes: number;
  readonly #mostHeaders: number;
  #parser: number | undefined;
  #state: ParserState = "between";
  /** The request whose body is read. */
  #request: InboundRequest | undefined;
  #piece: Buffer = EMPTY;
  /** The beginning of the piece, once a header needed it. */
  #text = "";
  #target = "";
  #raw: string[] = NO_HEADERS;
  /** No more headers are kept. */
  #full = false;
  /** Bytes of the target and of all names and values, then of trailers. */
  #headBytes = 0;
  /** Positions of the body in the piece: start, end, start, end. */
  readonly #body: number[] = [];
  /** Bytes since the last byte of the body, up to `#framed`. */
  #framing = 0;
  /** Position in the piece. */
  #framed = 0;
  /** Trailers have begun. */
  #trailers = false;

  /**
   * @param secure the connection is encrypted
   * @param mostBytes below this number are the target and all header names and values of a request, and its trailers
   * @param mostHeaders a request that has more has one more here: the others are read and not kept
   */
  constructor(events: RequestEvents, secure: boolean, mostBytes: number, mostHeaders: number) {
    this.#events = events;
    this.#secure = secure;
    this.#mostHeaders = mostHeaders;
    this.#mostBytes = mostBytes;
  }

  get state(): ParserState {
    return this.#state;
  }

  /** Parses a piece. The bytes are valid during the call. */
  read(piece: Buffer): void {
    for (let at = 0; at < piece.length && this.#state !== "stopped"; at += MOST_BYTES)
      this.#execute(piece.length > MOST_BYTES ? piece.subarray(at, at + MOST_BYTES) : piece);
    this.#piece = EMPTY;
    this.#text = "";
  }

  /** Reads no more bytes. */
  stop(): void {
    this.#state = "stopped";
    this.#request = undefined;
  }

  /** Frees the memory of the parser, which must not be used any more. */
  free(): void {
    this.stop();
    if (this.#parser !== undefined) freeParser(this.#parser);
    this.#parser = undefined;
  }

  #execute(part: Buffer): void {
    this.#piece = part;
    this.#text = "";
    this.#framed = 0;
    this.#body.length = 0;
    this.#parser ??= newParser(REQUESTS);
    const code = execute(this.#parser, part, this);
    if (code === OK && this.#state === "body") this.#frame(part.length);
    if (code !== OK || this.refusal !== undefined) {
      this.refusal ??= malformed(`the request is not valid HTTP/1.1: ${reasonOf(this.#parser) || `error ${code}`}`);
      this.stop();
    } else this.#passBody();
  }

  onBegin(): number {
    this.#state = "head";
    this.#target = "";
    this.#raw = [];
    this.#full = false;
    this.#headBytes = 0;
    return OK;
  }

  onTarget(at: number, length: number): number {
    this.#target += this.#slice(at, length);
    return this.#count(at, length);
  }

  onField(at: number, length: number): number {
    if (this.#state === "body") return this.#trailer(at, length);
    const raw = this.#raw;
    if (raw.length > 2 * this.#mostHeaders && raw.length % 2 === 0) this.#full = true;
    if (this.#full) return this.#count(at, length);
    const text = this.#slice(at, length);
    // Another part of a name, whose beginning was in the piece before.
    if (raw.length % 2 === 1) raw[raw.length - 1] += text;
    else if (this.#lacksEncoding()) return this.#refuse(NO_ENCODING);
    else raw.push(text);
    return this.#count(at, length);
  }

  onValue(at: number, length: number): number {
    if (this.#state === "head" && !this.#full) {
      const raw = this.#raw;
      const text = this.#slice(at, length);
      if (raw.length % 2 === 1) raw.push(text);
      else raw[raw.length - 1] += text;
    }
    return this.#count(at, length);
  }

  onHead(_status: number, upgrade: boolean, keepAlive: boolean): number {
    const raw = this.#raw;
    if (this.#lacksEncoding()) return this.#refuse(NO_ENCODING);
    if (upgrade) return this.#refuse(UPGRADE_REFUSED);
    for (let i = 1; i < raw.length; i += 2) raw[i] = withoutSpaceBehind(raw[i]!);
    const parser = this.#parser!;
    const [method, version] = [methodOf(parser), versionOf(parser)];
    const request = new InboundRequest(method, this.#target, version, raw, this.#secure, keepAlive);
    // An idle connection keeps nothing of its last request.
    this.#raw = NO_HEADERS;
    this.#target = "";
    this.#headBytes = 0;
    this.#framing = 0;
    this.#trailers = false;
    this.#request = request;
    this.#state = "body";
    return this.#events.requestHead(request) ? OK : FAILED;
  }

  onBody(at: number, length: number): number {
    this.#body.push(at, at + length);
    const answer = this.#frame(at);
    this.#framing = 0;
    this.#framed = at + length;
    return answer;
  }

  onComplete(): number {
    const request = this.#request!;
    if (!this.#lastChunkFits(request)) return this.#refuse(EXTENSIONS_TOO_LARGE);
    this.#passBody();
    request.complete = true;
    this.#request = undefined;
    this.#state = "between";
    return OK;
  }

  /** The last header is `Transfer-Encoding` without a value. This build of the parser takes that for no header; node refuses it. */
  #lacksEncoding(): boolean {
    const raw = this.#raw;
    return raw.at(-1) === "" && raw.at(-2)!.toLowerCase() === "transfer-encoding";
  }

  #trailer(at: number, length: number): number {
    this.#trailers = true;
    if (this.#frame(at) !== OK) return FAILED;
    this.#framing = 0;
    return this.#count(at, length);
  }

  /** Counts the bytes up to a position that are no body. */
  #frame(at: number): number {
    this.#framing += at - this.#framed;
    this.#framed = at;
    return this.#framing > MOST_FRAMING ? this.#refuse(EXTENSIONS_TOO_LARGE) : OK;
  }

  /** The parser does not say where the request ended. The extensions of the last chunk end with its line. */
  #lastChunkFits({ raw }: InboundRequest): boolean {
    const from = this.#framed;
    if (this.#trailers || this.#framing + this.#piece.length - from <= MOST_FRAMING) return true;
    if (!raw.some((name, i) => i % 2 === 0 && name.toLowerCase() === "transfer-encoding")) return true;
    const end = this.#piece.indexOf(0x0a, from + 4);
    return this.#framing + (end < 0 ? this.#piece.length : end) - from <= MOST_FRAMING;
  }

  /** Gives the request what the piece has of its body. */
  #passBody(): void {
    const body = this.#body;
    if (body.length === 0) return;
    let length = 0;
    for (let i = 0; i < body.length; i += 2) length += body[i + 1]! - body[i]!;
    const bytes = Buffer.allocUnsafe(length);
    let at = 0;
    for (let i = 0; i < body.length; i += 2) at += this.#piece.copy(bytes, at, body[i]!, body[i + 1]!);
    body.length = 0;
    this.#request!.add(bytes);
  }

  #slice(at: number, length: number): string {
    const end = at + length;
    if (end > DECODED) return this.#piece.toString("latin1", at, end);
    if (this.#text === "") this.#text = this.#piece.toString("latin1", 0, DECODED);
    return this.#text.slice(at, end);
  }

  /** Counts bytes of a head, or of trailers. */
  #count(at: number, length: number): number {
    this.#framed = at + length;
    this.#headBytes += length;
    return this.#headBytes < this.#mostBytes ? OK : this.#refuse(HEAD_TOO_LARGE);
  }

  #refuse(refusal: BadRequest): number {
    this.refusal = refusal;
    return FAILED;
  }
}

/** The parser removes only the space before a value. */
function withoutSpaceBehind(value: string): string {
  let end = value.length;
  while (end > 0 && (value.charCodeAt(end - 1) === 0x20 || value.charCodeAt(end - 1) === 0x09)) end--;
  return end === value.length ? value : value.slice(0, end);
}
