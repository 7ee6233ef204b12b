import type { Beginning } from "../begin-queue.ts";
import type { UpstreamController, UpstreamHandler, UpstreamRequest } from "./transport.ts";

/** A connection, as the call that it carries sees it. */
export interface CallCarrier {
  /** The connection is not usable any more. */
  readonly broken: boolean;
  /** Sends the request of a call. */
  carry(call: UpstreamCall): void;
  /** Stops reading the answer. */
  pause(): void;
  /** Reads on, unless the call rests. */
  resume(): void;
  /** A rest is over. */
  wake(): void;
  /** Ends the connection, and its call with an error. */
  fail(error: Error): void;
}

/** What a call needs of the connections of its endpoint. */
export interface CallHost {
  /** The events that were waiting when the call took its connection have run. */
  carry(call: UpstreamCall): void;
}

/** One request over one connection, from the first byte of the request to the last one of the answer. */
export class UpstreamCall implements UpstreamController, Beginning {
  readonly head: string;
  /** The connection may carry another request after this one. */
  readonly reusable: boolean;
  readonly handler: UpstreamHandler;
  readonly headless: boolean;
  /** Undefined once the socket has it. */
  body: UpstreamRequest["body"];
  /** Undefined before a connection is there, and once the call is over. */
  connection: CallCarrier | undefined;
  paused = false;
  /** After the present piece, the answer is not read. */
  resting = false;
  readonly #host: CallHost;

  constructor(host: CallHost, request: UpstreamRequest, head: string, reusable: boolean, handler: UpstreamHandler) {
    this.#host = host;
    this.head = head;
    this.reusable = reusable;
    this.handler = handler;
    this.headless = request.method === "HEAD";
    this.body = request.body;
  }

  begin(): void {
    this.#host.carry(this);
  }

  pause(): void {
    if (this.connection === undefined) return;
    this.paused = true;
    this.connection.pause();
  }

  resume(): void {
    if (!this.paused) return;
    this.paused = false;
    this.connection?.resume();
  }

  rest(): void {
    if (this.connection !== undefined) this.resting = true;
  }

  wake(): void {
    if (!this.resting) return;
    this.resting = false;
    if (!this.paused) this.connection?.wake();
  }

  abort(reason: Error): void {
    this.connection?.fail(reason);
  }
}
