import {
  ANSWERS,
  errorAt,
  execute,
  FAILED,
  finish,
  freeParser,
  MOST_BYTES,
  newParser,
  OK,
  PAUSED,
  type ParserEvents,
  reasonOf,
  resetParser,
  resumeParser,
  SKIP_BODY,
} from "../llhttp.ts";

/** Receives the parts of answers. */
export interface AnswerEvents {
  /** The method of the request is HEAD: its answer has no body. */
  readonly headless: boolean;
  /** The first byte of an answer, interim or final. */
  answerBegan(): void;
  /** The head of the final answer. @returns whether to go on; false pauses the parser */
  answerHead(status: number, headers: readonly string[]): boolean;
  /**
   * What a piece holds of the body. No parser runs meanwhile.
   * @param ranges the start and the end of each part, of which a chunked body has several
   * @returns whether to go on, if the piece has more
   */
  answerBody(piece: Buffer, ranges: readonly number[]): boolean;
}

/**
 * The progress of a parser. `open`: it wants more bytes. `paused`: `rest` bytes of the last piece are not parsed. `complete`: the
 * answer has ended, and `rest` bytes follow that belong to none. `failed`: see `error`.
 */
export type Progress = "open" | "paused" | "complete" | "failed";

/** Characters of a piece that are decoded at once: a head seldom has more. */
const DECODED = 1024;

/**
 * Reads the answers of one connection, one after the other. The body goes on after the piece that holds it, all its parts at once: a piece of
 * an event stream has many.
 */
export class AnswerParser implements ParserEvents {
  /** Why the bytes are no answer. */
  error: Error | undefined;
  /** Bytes at the end of the last piece that were not parsed. */
  rest = 0;
  /** After the complete answer, the connection may carry another request. */
  reusable = false;
  /** Milliseconds for which the server keeps the connection after the answer; NaN when it says nothing. */
  keptFor = Number.NaN;
  readonly #events: AnswerEvents;
  readonly #mostBytes: number;
  #parser: number | undefined;
  #piece: Buffer = Buffer.alloc(0);
  /** The beginning of the piece, once a header needed it. */
  #text = "";
  #headers: string[] = [];
  #headerBytes = 0;
  /** Whether the head of the final answer has come. */
  #headed = false;
  /** Declared bytes of the body; -1 when unknown. */
  #length = -1;
  #bodyBytes = 0;
  #complete = false;
  /** Start and end of the parts of the body in the piece. */
  readonly #body: number[] = [];
  /** No callback may interrupt another one. */
  #parsing = false;
  /** Nobody takes more of the body for now. */
  #stops = false;

  /** @param mostBytes bytes of all header names and values of a head */
  constructor(events: AnswerEvents, mostBytes: number) {
    this.#events = events;
    this.#mostBytes = mostBytes;
  }

  /** The head of the final answer has come, and the end of the connection is the end of its body. */
  get endsWithConnection(): boolean {
    return this.#headed && !this.reusable;
  }

  /** Bytes are being parsed. */
  get parsing(): boolean {
    return this.#parsing;
  }

  /** Parses a piece, or the rest of it after a pause. */
  read(piece: Buffer): Progress {
    for (let at = 0; ; at += MOST_BYTES) {
      const part = piece.length > MOST_BYTES ? piece.subarray(at, at + MOST_BYTES) : piece;
      const progress = this.#execute(part);
      const later = Math.max(0, piece.length - at - part.length);
      this.rest += later;
      if (progress !== "open" || later === 0) return progress;
      if (this.#stops) return "paused";
    }
  }

  #execute(part: Buffer): Progress {
    this.#piece = part;
    this.#text = "";
    this.rest = 0;
    this.#stops = false;
    this.#parsing = true;
    let code: number;
    try {
      this.#parser ??= newParser(ANSWERS);
      code = execute(this.#parser, part, this);
    } finally {
      this.#parsing = false;
    }
    this.#passBody();
    if (this.error !== undefined) return "failed";
    if (code === OK) return "open";
    if (code !== PAUSED) return this.#failed();
    this.rest = part.length - errorAt(this.#parser!);
    return this.#complete ? "complete" : "paused";
  }

  /** The next `read` goes on after a pause. */
  resume(): void {
    resumeParser(this.#parser!);
  }

  /** The connection has ended. @returns `complete`, or `failed` for an answer that lacks its end */
  finish(): Progress {
    const code = finish(this.#parser!, this);
    if (this.#complete) return "complete";
    if (code === OK) return "open";
    return this.#failed();
  }

  /** Another answer follows. */
  reset(): void {
    resetParser(this.#parser!);
    this.#headers = [];
    this.#headerBytes = 0;
    this.#headed = false;
    this.#length = -1;
    this.#bodyBytes = 0;
    this.#complete = false;
    this.reusable = false;
  }

  /** Frees the memory of the parser, which must not be used any more. */
  free(): void {
    if (this.#parser !== undefined) freeParser(this.#parser);
    this.#parser = undefined;
  }

  onBegin(): number {
    this.#events.answerBegan();
    return OK;
  }

  onTarget(): number {
    return OK;
  }

  onField(at: number, length: number): number {
    const headers = this.#headers;
    const text = this.#slice(at, length);
    // Another part of a name, whose beginning was in the piece before.
    if (headers.length % 2 === 1) headers[headers.length - 1] += text;
    else headers.push(text);
    return this.#count(length);
  }

  onValue(at: number, length: number): number {
    const headers = this.#headers;
    const text = this.#slice(at, length);
    if (headers.length % 2 === 1) headers.push(text);
    else headers[headers.length - 1] += text;
    return this.#count(length);
  }

  onHead(status: number, upgrade: boolean, keepAlive: boolean): number {
    // No request asked for 100 or for another protocol.
    if (status === 100) return this.#refuse(new Error("bad response"));
    if (upgrade) return this.#refuse(new Error("bad upgrade"));
    const headers = this.#headers;
    this.#headers = [];
    this.#headerBytes = 0;
    if (status < 200) return SKIP_BODY;
    this.#headed = true;
    const clean = this.#understand(status, headers);
    this.reusable = keepAlive && clean;
    const goesOn = this.#events.answerHead(status, headers);
    if (this.error !== undefined) return FAILED;
    if (this.#events.headless) return SKIP_BODY;
    return goesOn ? OK : PAUSED;
  }

  onBody(at: number, length: number): number {
    this.#bodyBytes += length;
    this.#body.push(at, at + length);
    return OK;
  }

  onComplete(): number {
    // An interim answer: the final one follows.
    if (!this.#headed) return OK;
    if (this.#length >= 0 && this.#bodyBytes !== this.#length) return this.#refuse(lengthDiffers());
    this.#complete = true;
    return PAUSED;
  }

  /** Notes what the headers say about the connection. @returns whether it may carry another request */
  #understand(status: number, headers: readonly string[]): boolean {
    let transferEncoding = false;
    this.keptFor = Number.NaN;
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i]!;
      if (name.length === 10 && name.toLowerCase() === "keep-alive") {
        const seconds = /(?:^|,)[\t ]*timeout=(\d+)/i.exec(headers[i + 1]!);
        if (seconds !== null) this.keptFor = 1000 * Number(seconds[1]);
      } else if (name.length === 14 && name.toLowerCase() === "content-length") this.#length = Number(headers[i + 1]);
      else if (name.length === 17 && name.toLowerCase() === "transfer-encoding") transferEncoding = true;
    }
    if (this.#events.headless) {
      this.#length = -1;
      return false;
    }
    if (status !== 204 && status !== 304) return true;
    // Such an answer has no body. If the server sends one all the same, its bytes would be read as the next answer.
    const clean = this.#length <= 0 && !transferEncoding;
    this.#length = -1;
    return clean;
  }

  #passBody(): void {
    if (this.#body.length === 0) return;
    this.#stops = !this.#events.answerBody(this.#piece, this.#body);
    this.#body.length = 0;
  }

  #slice(at: number, length: number): string {
    const end = at + length;
    if (end > DECODED) return this.#piece.toString("latin1", at, end);
    if (this.#text === "") this.#text = this.#piece.toString("latin1", 0, DECODED);
    return this.#text.slice(at, end);
  }

  /** Counts bytes of a header, or of a trailer. */
  #count(bytes: number): number {
    this.#headerBytes += bytes;
    return this.#headerBytes < this.#mostBytes ? OK : this.#refuse(new Error("Headers Overflow Error"));
  }

  #refuse(error: Error): number {
    this.error = error;
    return FAILED;
  }

  #failed(): Progress {
    this.error ??=
      this.#length >= 0 && this.#bodyBytes !== this.#length
        ? lengthDiffers()
        : new Error(`Response does not match the HTTP/1.1 protocol (${reasonOf(this.#parser!)})`);
    return "failed";
  }
}

function lengthDiffers(): Error {
  return new Error("Response body length does not match content-length header");
}
