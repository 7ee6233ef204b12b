import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { GrpcHandler, GrpcStream, GrpcStreamEvents } from "../../base/grpc/transport.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { Decision, EndCause, Exchange, Wire } from "../../picker/exchange/wire.ts";
import { decodeProcessingRequest, PassingChunk } from "./decode.ts";
import type { ProcessingRequest } from "./messages.ts";
import type { Notices } from "./notices.ts";
import { HOLD, ReadGate, Replies } from "./replies.ts";
import { type Pending, RequestPhase } from "./request-phase.ts";
import { ResponsePhase } from "./response-phase.ts";
import { RouteMetadata } from "./route-metadata.ts";
import { bodyModesOf, type WireOptions } from "./wire-options.ts";

/** The gRPC statuses with which a session ends. */
const OK = 0;
const CANCELLED = 1;
const UNKNOWN = 2;
const INTERNAL = 13;

/** The chunk that is passing. */
const CHUNK = new PassingChunk();

interface SessionOptions {
  readonly wire: WireOptions;
  readonly clock: Clock;
  /** Faults of proxies that Sluice tolerates. */
  readonly notices: Notices;
  openExchange(wire: Wire): Exchange;
  /** Receives internal errors of sluice. */
  onError(error: unknown): void;
}

/**
 * One stream of a proxy: one HTTP exchange. The session learns the body modes and hands each message to its phase. It sends the
 * decision back and ends the stream with the right status. Source: epp-protocol 2, 5, 9.
 */
export class Session implements GrpcStreamEvents, Wire {
  readonly #stream: GrpcStream;
  readonly #options: SessionOptions;
  readonly #exchange: Exchange;
  readonly #gate: ReadGate;
  readonly #replies: Replies;
  readonly #request: RequestPhase;
  readonly #response: ResponsePhase;
  #begun = false;
  #observing = false;
  #closed = false;
  /** Runs while a proxy with a reply timeout waits for a decision. */
  #patience: Timer | undefined;

  /** @param metadata serves all sessions with these options */
  constructor(stream: GrpcStream, options: SessionOptions, metadata: RouteMetadata = new RouteMetadata(options.wire)) {
    const { wire, notices } = options;
    this.#stream = stream;
    this.#options = options;
    this.#gate = new ReadGate(stream);
    this.#replies = new Replies(stream, this.#gate, wire);
    this.#exchange = options.openExchange(this);
    this.#request = new RequestPhase(this.#exchange, this.#replies, { options: wire, notices, metadata });
    this.#response = new ResponsePhase(this.#exchange, this.#replies, wire, notices);
  }

  message(bytes: Uint8Array): void {
    if (this.#closed) return;
    let request: ProcessingRequest;
    try {
      request = decodeProcessingRequest(bytes);
    } catch (error) {
      this.#finish("error", UNKNOWN, `cannot receive stream request: ${messageOf(error)}`);
      return;
    }
    try {
      this.#handle(request);
    } catch (error) {
      this.#fail(error);
    }
  }

  passing(bytes: Buffer, from: number, to: number): boolean {
    if (this.#closed || this.#observing || !this.#response.passes || !CHUNK.read(bytes, from, to)) return false;
    try {
      this.#response.pass(bytes.subarray(CHUNK.from, CHUNK.to), CHUNK.end);
    } catch (error) {
      this.#fail(error);
    }
    return true;
  }

  /**
   * The proxy's client left, or the proxy has all replies (epp-protocol 5.2). While bytes lack a reply, the stream does not end
   * with OK.
   */
  halfClosed(): void {
    if (this.#closed) return;
    const outstanding = this.#request.outstanding || (this.#response.started && !this.#response.done);
    this.#finish(this.#goneCause(), outstanding ? CANCELLED : OK);
  }

  closed(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#patience?.cancel();
    this.#exchange.end(this.#goneCause());
  }

  pauseRequest(): void {
    this.#gate.hold(HOLD.budget);
  }

  resumeRequest(): void {
    this.#gate.release(HOLD.budget);
  }

  clientAddress(): string | undefined {
    return this.#request.clientAddress;
  }

  evict(rejection: Rejection): void {
    if (this.#closed || this.#response.done) return;
    try {
      this.#refuse(rejection);
    } catch (error) {
      this.#fail(error);
    }
  }

  #handle(request: ProcessingRequest): void {
    if (request.kind === "none") return;
    if (request.observabilityMode) this.#observing = true;
    // The picker never replies on such a stream (epp-protocol 2(4)), so it needs no decision.
    if (this.#observing) return;
    if (!this.#begun && !this.#begin(request)) return;
    switch (request.kind) {
      case "request_headers":
        this.#settle(this.#request.onHeaders(request));
        break;
      case "request_body":
        if (!this.#answeredByProxy()) this.#onRequestBody(request);
        break;
      case "request_trailers":
        if (!this.#answeredByProxy()) this.#settle(this.#request.onTrailers(request));
        break;
      case "response_headers":
        this.#response.onHeaders(request);
        break;
      case "response_body":
        this.#response.onBody(request, this.#request.tunnel);
        break;
      case "response_trailers":
        this.#response.onTrailers();
    }
  }

  #onRequestBody(request: ProcessingRequest): void {
    const pending = this.#request.onBody(request);
    if (pending === undefined && this.#request.gathering) this.#stream.recycle(request.message);
    this.#settle(pending);
  }

  /** @returns false when the modes are refused */
  #begin(request: ProcessingRequest): boolean {
    this.#begun = true;
    const modes = bodyModesOf(request.protocolConfig, this.#options.wire);
    if (modes instanceof Rejection) {
      this.#refuse(modes);
      return false;
    }
    this.#request.begin(modes.request);
    this.#response.begin(modes.response);
    return true;
  }

  /**
   * The proxy answered the request itself while the request waited for its destination. The request needs no destination any
   * more.
   */
  #answeredByProxy(): boolean {
    return this.#response.started && !this.#request.routed;
  }

  #settle(pending: Pending): void {
    if (pending === undefined) return;
    if (!(pending instanceof Promise)) {
      this.#answer(pending);
      return;
    }
    this.#beginWaiting();
    pending.then((decision) => this.#answer(decision)).catch((error: unknown) => this.#fail(error));
  }

  #answer(decision: Decision): void {
    this.#patience?.cancel();
    if (this.#closed || this.#answeredByProxy()) return;
    if (decision instanceof Rejection) {
      this.#refuse(decision);
      return;
    }
    this.#request.route(decision);
    if (this.#options.wire.closeEarly && decision.skipResponse && this.#request.complete)
      this.#finish("no-response-phase", OK);
  }

  /** Asks a proxy with a reply timeout for more time, once, after half of the timeout (envoy-data-plane 1.6, D-24). */
  #beginWaiting(): void {
    const { messageTimeoutHint: hint, messageTimeoutMax: most = 10 * hint } = this.#options.wire;
    if (hint <= 0 || !this.#request.timed) return;
    this.#patience = this.#options.clock.after(hint / 2, () => {
      if (this.#closed) return;
      try {
        this.#replies.moreTime(Math.max(1, Math.round(most)));
      } catch (error) {
        this.#fail(error);
      }
    });
  }

  #refuse(rejection: Rejection): void {
    this.#replies.immediate(rejection, this.#exchange.requestId, this.#exchange.ownHeaders);
    this.#finish("rejected", OK, undefined, rejection);
  }

  /**
   * An error was thrown. Before the first reply of that direction the client gets a 500; after it the stream breaks
   * (epp-protocol 5.2).
   */
  #fail(error: unknown): void {
    this.#options.onError(error);
    if (this.#closed) return;
    if (!this.#replies.broken && !this.#response.answered && !this.#request.partial) {
      try {
        this.#refuse(new Rejection("internal", messageOf(error)));
        return;
      } catch (another) {
        this.#options.onError(another);
      }
    }
    if (this.#replies.broken)
      this.#finish("error", UNKNOWN, `failed to send response back to Envoy: ${messageOf(error)}`);
    else this.#finish("error", INTERNAL, messageOf(error));
  }

  #goneCause(): EndCause {
    if (this.#response.done) return "complete";
    if (this.#observing) return "no-response-phase";
    return this.#request.routed && this.#response.absent ? "no-response-phase" : "client-gone";
  }

  #finish(cause: EndCause, status: number, message?: string, rejection?: Rejection): void {
    this.#closed = true;
    this.#patience?.cancel();
    this.#exchange.end(cause, rejection);
    this.#stream.end(status, message);
  }
}

/** Accepts a `Process` stream: one session for each. */
export function processHandler(options: SessionOptions): GrpcHandler {
  const metadata = new RouteMetadata(options.wire);
  return (stream) => new Session(stream, options, metadata);
}
