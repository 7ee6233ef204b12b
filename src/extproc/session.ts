import type { Decision, EndCause, Exchange, Routed, SubsetHint, Wire } from "../exchange/wire.ts";
import { detach } from "../grpc/frames.ts";
import { Writer } from "../grpc/protobuf.ts";
import type { GrpcStream, GrpcStreamEvents } from "../grpc/transport.ts";
import { messageOf } from "../inference/errors.ts";
import { HEADER, HeaderList } from "../inference/headers.ts";
import { Rejection } from "../inference/outcomes.ts";
import { decodeProcessingRequest } from "./decode.ts";
import { encodeHeadersReply, encodeImmediateReply, sendBody } from "./encode.ts";
import { requestMutation, responseMutation } from "./header-mutation.ts";
import { BODY_MODE, type Phase, type ProcessingRequest } from "./messages.ts";
import { metadataOf, upstreamAddressOf } from "./metadata.ts";
import { ResponseBuffer } from "./response-buffer.ts";
import { parseSubsetHint } from "./subset-hint.ts";

/** Metadata namespaces and attribute of the protocol (epp-protocol 6, 7, 8). */
const SUBSET_NAMESPACE = "envoy.lb.subset_hint";
const PICK_NAMESPACE = "envoy.lb";

/** Replies are encoded one after the other on one thread: all sessions share the buffer they are written in. */
const WRITER = new Writer();

/** gRPC statuses a session ends with. */
const OK = 0;
const CANCELLED = 1;
const UNKNOWN = 2;
const INTERNAL = 13;

export interface SessionOptions {
  /** Sends `x-llm-d-request-dropped-reason` with drops (epp-protocol 9.4). */
  readonly emitDroppedReason: boolean;
  openExchange(wire: Wire): Exchange;
  /** Told of failures of our own. */
  onError(error: unknown): void;
}

/**
 * One Envoy stream: one HTTP exchange in FULL_DUPLEX_STREAMED mode. Turns messages into calls on the exchange, and its
 * decision into replies, each sent only when it is legal. Source: epp-protocol 3 to 5.
 */
export class Session implements GrpcStreamEvents, Wire {
  readonly #stream: GrpcStream;
  readonly #options: SessionOptions;
  readonly #exchange: Exchange;
  readonly #buffer = new ResponseBuffer();
  #requestHeaders = new HeaderList();
  #first = true;
  /** Bytes of the request were received and not yet answered. */
  #requestOpen = false;
  #responseOpen = false;
  #responseHeadersSeen = false;
  #responseDone = false;
  #routed = false;
  #noResponsePhase = false;
  #observing = false;
  #closed = false;

  constructor(stream: GrpcStream, options: SessionOptions) {
    this.#stream = stream;
    this.#options = options;
    this.#exchange = options.openExchange(this);
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

  /** The proxy's client left, or everything was answered (epp-protocol 5.2): bytes not given back never end with OK. */
  halfClosed(): void {
    if (this.#closed) return;
    const outstanding = this.#requestOpen || this.#responseOpen;
    this.#finish(this.#goneCause(), outstanding ? CANCELLED : OK);
  }

  closed(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#exchange.end(this.#goneCause());
  }

  pauseRequest(): void {
    this.#stream.pause();
  }

  resumeRequest(): void {
    this.#stream.resume();
  }

  evict(rejection: Rejection): void {
    if (!this.#closed && !this.#responseDone) this.#refuse(rejection);
  }

  #handle(request: ProcessingRequest): void {
    if (request.kind === "none") return;
    if (request.observabilityMode) this.#observing = true;
    // Nothing is ever sent on such a stream (epp-protocol 2.4), so nothing needs to be decided.
    if (this.#observing) return;
    if (this.#first) {
      this.#first = false;
      if (this.#refusesMode(request)) return;
    }
    switch (request.kind) {
      case "request_headers":
        this.#onRequestHeaders(request);
        break;
      case "request_body":
        this.#onRequestBody(request);
        break;
      case "response_headers":
        this.#onResponseHeaders(request);
        break;
      case "response_body":
        this.#onResponseBody(request);
        break;
      case "request_trailers":
      case "response_trailers":
        this.#refuse(new Rejection("not_supported", "HTTP trailers are not supported yet"));
    }
  }

  /** Modes other than the duplex one answer 501; a direction without bodies (NONE) needs no dialect. */
  #refusesMode({ protocolConfig: config }: ProcessingRequest): boolean {
    if (config === undefined) return false;
    this.#noResponsePhase = config.responseBodyMode === BODY_MODE.none;
    for (const [direction, mode] of [
      ["request", config.requestBodyMode],
      ["response", config.responseBodyMode],
    ] as const) {
      if (mode === BODY_MODE.none || mode === BODY_MODE.fullDuplexStreamed) continue;
      this.#refuse(
        new Rejection(
          "not_supported",
          `${direction} body mode ${modeName(mode)} is not supported yet; configure FULL_DUPLEX_STREAMED`,
        ),
      );
      return true;
    }
    return false;
  }

  #onRequestHeaders(request: ProcessingRequest): void {
    const headers = request.headers ?? this.#requestHeaders;
    this.#requestHeaders = headers;
    if (headers.get("upgrade") !== undefined) {
      this.#refuse(new Rejection("not_supported", "HTTP upgrades are not supported yet"));
      return;
    }
    // With the body mode NONE no body message will come, whatever the client sends.
    const end = request.endOfStream || request.protocolConfig?.requestBodyMode === BODY_MODE.none;
    this.#requestOpen = !end;
    const decision = this.#exchange.requestHeaders(headers, end, subsetOf(request));
    if (decision !== undefined) this.#answer(decision);
  }

  #onRequestBody(request: ProcessingRequest): void {
    if (this.#routed) return;
    this.#requestOpen = true;
    const decision = this.#exchange.requestBody(request.body, request.endOfStream, subsetOf(request));
    if (decision instanceof Promise) {
      decision.then(
        (settled) => this.#answer(settled),
        (error: unknown) => this.#fail(error),
      );
    } else if (decision !== undefined) this.#answer(decision);
  }

  #answer(decision: Decision): void {
    if (this.#closed) return;
    if (decision instanceof Rejection) this.#refuse(decision);
    else this.#route(decision);
  }

  #route(routed: Routed): void {
    const destination = destinationOf(routed);
    const exchange = this.#exchange;
    const mutation = requestMutation(this.#requestHeaders, {
      destination,
      contentLength: routed.bodyLength,
      requestId: exchange.requestIdGenerated ? exchange.requestId : undefined,
    });
    this.#stream.sendFramed(
      encodeHeadersReply(WRITER, "request", {
        set: mutation.set,
        remove: mutation.remove,
        clearRouteCache: true,
        dynamicMetadata: { [PICK_NAMESPACE]: { [HEADER.destination]: destination } },
      }),
    );
    this.#routed = true;
    if (this.#requestOpen) this.#sendBody("request", routed.body, true);
    this.#requestOpen = false;
    exchange.releaseBody();
  }

  #onResponseHeaders(request: ProcessingRequest): void {
    const headers = request.headers ?? new HeaderList();
    const served = servedOf(request);
    if (served !== undefined) this.#exchange.servedBy(served);
    this.#responseHeadersSeen = true;
    this.#responseOpen = !request.endOfStream && !this.#noResponsePhase;
    this.#stream.sendFramed(encodeHeadersReply(WRITER, "response", responseMutation(headers)));
    const status = Number(headers.get(":status") ?? headers.get("status") ?? Number.NaN);
    if (!this.#responseOpen) this.#responseDone = true;
    this.#exchange.responseHeaders(Number.isNaN(status) ? 0 : status, headers, request.endOfStream);
  }

  #onResponseBody(request: ProcessingRequest): void {
    if (this.#responseDone) return;
    this.#responseOpen = true;
    const end = request.endOfStream;
    // A piece that waits for the rest must not keep the whole socket read alive that it is a view of.
    const passing = end || this.#exchange.streaming;
    const chunk = this.#exchange.responseBody(passing ? request.body : detach(request.body), end);
    // A body before its headers is passed through: holding it back would only add a second fault to the proxy's.
    if (this.#exchange.streaming || !this.#responseHeadersSeen) {
      this.#sendBody("response", [chunk], end);
    } else {
      const ready = this.#buffer.add(chunk, this.#exchange.holdsResponse);
      if (ready !== undefined) this.#sendBody("response", ready, end);
    }
    if (end) {
      this.#responseOpen = false;
      this.#responseDone = true;
    }
  }

  /** Back-pressure stops the reading of this stream alone: Envoy then stops reading from where the bytes come. */
  #sendBody(phase: Phase, pieces: readonly Uint8Array[], end: boolean): void {
    if (sendBody(this.#stream, WRITER, phase, pieces, end)) return;
    this.#stream.pause();
    this.#stream.whenWritable(() => this.#stream.resume());
  }

  #refuse(rejection: Rejection): void {
    const headers = new HeaderList();
    const dropped = this.#options.emitDroppedReason ? rejection.droppedHeader : undefined;
    if (dropped !== undefined) headers.add(...dropped);
    this.#stream.sendFramed(
      encodeImmediateReply(WRITER, {
        status: rejection.status,
        body: Buffer.from(rejection.text),
        ...(dropped === undefined ? {} : { set: headers }),
      }),
    );
    this.#finish("rejected", OK, undefined, rejection);
  }

  /** Something threw: a 500 while the direction has no answer yet, a broken stream once it has. */
  #fail(error: unknown): void {
    this.#options.onError(error);
    if (this.#closed) return;
    if (this.#responseHeadersSeen || this.#responseOpen || (this.#routed && this.#requestOpen))
      this.#finish("error", INTERNAL, messageOf(error));
    else this.#refuse(new Rejection("internal", messageOf(error)));
  }

  #goneCause(): "complete" | "client-gone" | "no-response-phase" {
    if (this.#responseDone) return "complete";
    return this.#routed && this.#noResponsePhase ? "no-response-phase" : "client-gone";
  }

  #finish(cause: EndCause, status: number, message?: string, rejection?: Rejection): void {
    this.#closed = true;
    this.#exchange.end(cause, rejection);
    this.#stream.end(status, message);
  }
}

/** The endpoints that the picker offers, primary first, comma-separated (epp-protocol 7). */
function destinationOf({ endpoints, offered }: Routed): string {
  let text = endpoints[0]!.hostPort;
  for (let i = 1; i < offered && i < endpoints.length; i++) text += `,${endpoints[i]!.hostPort}`;
  return text;
}

function subsetOf(request: ProcessingRequest): SubsetHint | undefined {
  const value = metadataOf(request, SUBSET_NAMESPACE)?.[HEADER.destinationSubset];
  return value === undefined ? undefined : parseSubsetHint(value);
}

/** Who served, by metadata, else by attribute (epp-protocol 8, data-plane 2.4). */
function servedOf(request: ProcessingRequest): string | undefined {
  const reported = metadataOf(request, PICK_NAMESPACE)?.[HEADER.destinationServed];
  if (typeof reported === "string" && reported !== "") return reported;
  return upstreamAddressOf(request) || undefined;
}

function modeName(mode: number): string {
  const names: Record<number, string> = { 1: "STREAMED", 2: "BUFFERED", 3: "BUFFERED_PARTIAL", 5: "GRPC" };
  return names[mode] ?? String(mode);
}
