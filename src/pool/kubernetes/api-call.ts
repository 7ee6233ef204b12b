import type { Dispatcher } from "undici";
import { messageOf } from "../../base/inference/errors.ts";
import { ApiError } from "./api-error.ts";
import { GrowingBytes } from "./growing-bytes.ts";

/** Bytes of the body of a refusal that are read. */
const MAX_ERROR_BYTES = 1024 * 1024;

/** Takes the body of an answer that is no error; what it throws ends the call. */
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
  /** The connection broke before anything had come: whether the server read the request is unknown. */
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
    // The error of several addresses tried in vain has a code and no message.
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
