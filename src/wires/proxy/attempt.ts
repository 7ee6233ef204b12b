import { CONNECT_TIMEOUT } from "../../base/grpc/server-connector.ts";
import { serverTlsError } from "../../base/grpc/server-tls.ts";
import type { AttemptFailure, Endpoint } from "../../base/inference/endpoint.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { OutcomeReason } from "../../base/inference/outcomes.ts";
import { type ResponseHead, readResponseHead } from "./response-head.ts";
import { RequestRefused, type UpstreamController, type UpstreamHandler } from "./upstream/transport.ts";

/** Receives the events of an attempt. After `cancel`, only `attemptOver` follows. */
export interface AttemptListener {
  answerHead(head: ResponseHead): void;
  /** The request was written to its end. */
  requestSent(): void;
  /** @param parts as in `UpstreamHandler.onResponseData` */
  answerChunk(chunk: Buffer, parts: number): void;
  /** The answer is complete. */
  answerEnd(): void;
  /** The attempt failed before the first byte of an answer: another endpoint may get the request. */
  attemptFailed(failure: AttemptFailure, detail: string): void;
  /** The answer broke off, before or after its head was complete. */
  answerLost(detail: string): void;
  /** The request cannot be sent to any endpoint. */
  attemptRefused(error: Error): void;
  /** The attempt is over, for any reason. Called exactly once, also after `cancel`. */
  attemptOver(endpoint: Endpoint): void;
}

/** The reason in the client's answer when no retry or no endpoint is left (envoy-data-plane 4.4). */
export const USED_UP: Record<AttemptFailure, OutcomeReason> = {
  connect: "upstream_connect",
  timeout: "upstream_connect",
  reset: "upstream_reset",
  status: "upstream_reset",
};

/** The transport gets this error when the proxy gives up an attempt. One object is enough, because no code reads its stack. */
const GIVEN_UP = new Error("the attempt was given up");

/** One request to one endpoint. */
export class Attempt implements UpstreamHandler {
  readonly endpoint: Endpoint;
  readonly #listener: AttemptListener;
  #controller: UpstreamController | undefined;
  #answered = false;
  #live = true;
  #over = false;

  constructor(listener: AttemptListener, endpoint: Endpoint) {
    this.#listener = listener;
    this.endpoint = endpoint;
  }

  /** Stops listening and destroys the connection, which is never used again. */
  cancel(): void {
    this.#live = false;
    // Without a controller there is no connection yet. `onRequestStart` then finds the attempt cancelled and destroys the
    // connection.
    this.#controller?.abort(GIVEN_UP);
  }

  /** Stops reading the answer. */
  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    this.#controller?.resume();
  }

  /** Stops reading behind the present piece of the answer, until `wake`. */
  rest(): void {
    this.#controller?.rest();
  }

  wake(): void {
    this.#controller?.wake();
  }

  onRequestStart(controller: UpstreamController): void {
    this.#controller = controller;
    if (!this.#live) controller.abort(GIVEN_UP);
  }

  onRequestSent(): void {
    if (this.#live) this.#listener.requestSent();
  }

  /** The first byte of an answer, even if the bytes turn out not to be HTTP. */
  onResponseStarted(): void {
    this.#answered = true;
  }

  onResponseStart(status: number, headers: readonly string[]): void {
    if (this.#live) this.#listener.answerHead(readResponseHead(status, headers));
  }

  onResponseData(bytes: Buffer, parts: number): void {
    if (this.#live) this.#listener.answerChunk(bytes, parts);
  }

  onResponseEnd(): void {
    if (this.#live) {
      this.#live = false;
      this.#listener.answerEnd();
    }
    this.#finished();
  }

  onResponseError(error: Error & { code?: string }): void {
    if (this.#live) {
      this.#live = false;
      const code = error.code ?? "";
      // The error of a host name with several addresses has a code and no message.
      const detail = messageOf(serverTlsError(error)) || code;
      if (error instanceof RequestRefused) this.#listener.attemptRefused(error);
      else if (this.#answered) this.#listener.answerLost(detail);
      else this.#listener.attemptFailed(this.#failure(code), detail);
    }
    this.#finished();
  }

  #failure(code: string): AttemptFailure {
    if (this.#controller !== undefined) return "reset";
    return code === CONNECT_TIMEOUT || code === "ETIMEDOUT" ? "timeout" : "connect";
  }

  #finished(): void {
    if (this.#over) return;
    this.#over = true;
    this.#listener.attemptOver(this.endpoint);
  }
}
