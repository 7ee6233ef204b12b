import type { Dispatcher } from "undici";
import { messageOf } from "../../base/inference/errors.ts";
import { ApiError } from "./api-error.ts";

/** Most bytes of an error body that are read. */
const MAX_ERROR_BYTES = 1024 * 1024;

/** Takes the body of an answer that is no error. An error that it throws ends the call. */
export interface Receiver {
  opened(): void;
  data(piece: Buffer): void;
  ended(): void;
}

/** An answer with an error status. */
interface Refusal {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly body: GrowingBytes;
}

/** Codes of a connection that broke. */
const RESETS: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE", "UND_ERR_SOCKET"]);

/** One HTTP exchange with an API server: the handler of its answer. */
export class ApiCall implements Dispatcher.DispatchHandler {
  /** Resolves at the end of an answer that is no error. @throws ApiError, or what the receiver threw */
  readonly done: Promise<void>;
  /** The connection broke before the first byte: whether the server read the request is unknown. */
  broken = false;
  readonly #server: string;
  readonly #receiver: Receiver;
  readonly #refused: (status: number, retryAfter: string | undefined, body: string) => ApiError;
  #resolve: () => void = () => {};
  #reject: (error: unknown) => void = () => {};
  #controller: Dispatcher.DispatchController | undefined;
  #refusal: Refusal | undefined;
  #answered = false;
  #over = false;

  /** @param refused makes the error for an answer with an error status */
  constructor(
    server: string,
    receiver: Receiver,
    refused: (status: number, retryAfter: string | undefined, body: string) => ApiError,
  ) {
    this.#server = server;
    this.#receiver = receiver;
    this.#refused = refused;
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** Gives up: `done` rejects with `error`, and the connection is closed. */
  fail(error: unknown): void {
    if (this.#over) return;
    this.#over = true;
    this.#reject(error);
    this.#controller?.abort(new Error("given up"));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#over) controller.abort(new Error("given up"));
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Record<string, unknown>): void {
    if (status < 200 || this.#over) return;
    this.#answered = true;
    if (status >= 300) {
      const after = headers["retry-after"];
      this.#refusal = { status, retryAfter: typeof after === "string" ? after : undefined, body: new GrowingBytes() };
    } else this.#guarded(() => this.#receiver.opened());
  }

  onResponseData(_controller: Dispatcher.DispatchController, piece: Buffer): void {
    if (this.#over) return;
    const refusal = this.#refusal;
    if (refusal === undefined) this.#guarded(() => this.#receiver.data(piece));
    else {
      refusal.body.append(piece);
      if (refusal.body.size > MAX_ERROR_BYTES) this.fail(this.#refused(refusal.status, refusal.retryAfter, ""));
    }
  }

  onResponseEnd(): void {
    if (this.#over) return;
    const refusal = this.#refusal;
    if (refusal === undefined) this.#guarded(() => this.#receiver.ended());
    if (this.#over) return;
    this.#over = true;
    if (refusal === undefined) this.#resolve();
    else this.#reject(this.#refused(refusal.status, refusal.retryAfter, refusal.body.text()));
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#over) return;
    const { code = "" } = error as NodeJS.ErrnoException;
    this.broken = !this.#answered && RESETS.has(code);
    // The error after failures at several addresses has a code and no message.
    const why = messageOf(error) || code || error.name;
    const text = this.#answered
      ? `the connection to ${this.#server} broke: ${why}`
      : `${this.#server} cannot be reached: ${why}`;
    this.fail(new ApiError(text, { status: 0, reason: "" }, { cause: error }));
  }

  #guarded(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.fail(error);
    }
  }
}

const NEWLINE = 0x0a;

/** Cuts a stream of bytes into lines of UTF-8 text, in pieces of any size: only whole lines are decoded. */
export class WatchLineSplitter {
  readonly #maxBytes: number;
  readonly #onLine: (line: string) => void;
  readonly #tooLong: () => Error;
  readonly #rest = new GrowingBytes();

  /**
   * @param maxBytes longest line
   * @param onLine called for each line that is not empty, in order
   * @param tooLong makes the error for a line that is longer
   */
  constructor(maxBytes: number, onLine: (line: string) => void, tooLong: () => Error) {
    this.#tooLong = tooLong;
    this.#maxBytes = maxBytes;
    this.#onLine = onLine;
  }

  /** @throws the errors of `tooLong` and `onLine` */
  push(piece: Buffer): void {
    let start = 0;
    for (;;) {
      const end = piece.indexOf(NEWLINE, start);
      const length = (end < 0 ? piece.length : end) - start;
      if (this.#rest.size + length > this.#maxBytes) throw this.#tooLong();
      if (end < 0) break;
      if (this.#rest.size > 0) {
        this.#rest.append(piece.subarray(start, end));
        this.end();
      } else if (length > 0) this.#onLine(piece.toString("utf8", start, end));
      start = end + 1;
    }
    if (start < piece.length) this.#rest.append(piece.subarray(start));
  }

  /** The stream has ended: the text since the last newline is a line, too. */
  end(): void {
    if (this.#rest.size === 0) return;
    const line = this.#rest.text();
    this.#rest.clear();
    this.#onLine(line);
  }
}

/** Joins pieces of bytes of any size in one buffer: a million small pieces cost no more than their bytes. */
export class GrowingBytes {
  #buffer: Buffer = Buffer.alloc(0);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  append(piece: Uint8Array): void {
    const size = this.#size + piece.length;
    if (size > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(4096, size, this.#buffer.length * 2));
      this.#buffer.copy(larger, 0, 0, this.#size);
      this.#buffer = larger;
    }
    this.#buffer.set(piece, this.#size);
    this.#size = size;
  }

  /** All of it, decoded as UTF-8. */
  text(): string {
    return this.#buffer.toString("utf8", 0, this.#size);
  }

  /** Forgets the bytes. The memory is kept for the next ones unless it has become large. */
  clear(): void {
    this.#size = 0;
    if (this.#buffer.length > 65_536) this.#buffer = Buffer.alloc(0);
  }
}
