import { detach } from "../../base/grpc/frames.ts";
import { HEADER, HeaderList } from "../../base/inference/headers.ts";
import type { Exchange } from "../../picker/exchange/wire.ts";
import { responseMutation } from "./header-mutation.ts";
import { BODY_MODE, type CommonReply, type ProcessingRequest, type Struct } from "./messages.ts";
import { metadataOf, upstreamAddressOf } from "./metadata.ts";
import type { Notices } from "./notices.ts";
import type { Replies } from "./replies.ts";
import { isBuffered, type WireOptions } from "./wire-options.ts";

/** The namespace in which proxies report the chosen endpoint (epp-protocol 8); it was never configurable. */
const NAMESPACE = "envoy.lb";

/**
 * The response half of a stream, in every body mode. Some streams have none. Source: epp-protocol 4, envoy-data-plane 1.4(11).
 */
export class ResponsePhase {
  readonly #exchange: Exchange;
  readonly #replies: Replies;
  readonly #options: WireOptions;
  readonly #notices: Notices;
  readonly #buffer = new ResponseBuffer();
  #mode: number = BODY_MODE.fullDuplexStreamed;
  #headersSeen = false;
  #started = false;
  #answered = false;
  /** The end of the body was received. */
  #ended = false;
  #trailersSeen = false;

  constructor(exchange: Exchange, replies: Replies, options: WireOptions, notices: Notices) {
    this.#exchange = exchange;
    this.#replies = replies;
    this.#options = options;
    this.#notices = notices;
  }

  /** @param mode a number of `BODY_MODE`; the caller knows it before the first message */
  begin(mode: number): void {
    this.#mode = mode;
  }

  /** The proxy has sent a part of the response. */
  get started(): boolean {
    return this.#started;
  }

  /** The picker has replied to a part of the response. */
  get answered(): boolean {
    return this.#answered;
  }

  /** The picker has replied to everything that the proxy will send. */
  get done(): boolean {
    return this.#ended || (this.#headersSeen && this.#mode === BODY_MODE.none);
  }

  /** The proxy processes the request only. */
  get absent(): boolean {
    return this.#mode === BODY_MODE.none;
  }

  /** Chunks go on as they come, and nobody keeps one: their bytes may be gone after `pass`. */
  get passes(): boolean {
    const exchange = this.#exchange;
    return (
      this.#mode === BODY_MODE.fullDuplexStreamed &&
      this.#headersSeen &&
      !this.#ended &&
      exchange.streaming &&
      !exchange.holdsResponse &&
      !exchange.rewritesResponse
    );
  }

  /** A chunk, or the end, of a body that `passes`. */
  pass(body: Uint8Array, end: boolean): void {
    const chunk = this.#exchange.responseBody(body, end);
    const metadata = end ? this.#exchange.responseMetadata : undefined;
    if (metadata !== undefined) this.#replies.chunks("response", [chunk], end, metadata);
    else if (chunk.length > 0 || end) this.#replies.chunk("response", chunk, end);
    this.#ended = end;
    this.#answered = true;
  }

  onHeaders(request: ProcessingRequest): void {
    if (this.#headersSeen) return;
    this.#headersSeen = true;
    this.#started = true;
    const exchange = this.#exchange;
    const headers = request.headers ?? new HeaderList();
    const metadata = metadataOf(request, NAMESPACE);
    const served = servedOf(request, metadata);
    if (served !== undefined) exchange.servedBy(served);
    const added = exchange.responseHeaders(statusOf(headers), headers, request.endOfStream, metadata);
    const lengthChanges = this.#mode === BODY_MODE.fullDuplexStreamed && exchange.rewritesResponse;
    const { set, echoed, remove, literalAppendAction } = responseMutation(
      headers,
      added,
      lengthChanges,
      this.#options,
      request,
    );
    const dynamicMetadata = request.endOfStream ? exchange.responseMetadata : undefined;
    this.#replies.headers("response", { set, echoed, remove, literalAppendAction, dynamicMetadata });
    this.#answered = true;
    if (request.endOfStream) this.#ended = true;
  }

  /** @param tunnel the bytes belong to an upgraded connection: the phase holds nothing back */
  onBody(request: ProcessingRequest, tunnel: boolean): void {
    if (this.done) {
      this.#notices.add("repeated-end");
      return;
    }
    this.#started = true;
    if (this.#mode === BODY_MODE.fullDuplexStreamed) this.#duplexChunk(request, tunnel);
    else if (isBuffered(this.#mode)) this.#wholeBody(request);
    else this.#streamedChunk(request);
    this.#answered = true;
  }

  /**
   * Trailers end the body. Held bytes go out before the trailers, without the end flag, which the trailers replace
   * (epp-protocol 4.1).
   */
  onTrailers(): void {
    if (this.#trailersSeen) return;
    this.#trailersSeen = true;
    let metadata: Struct | undefined;
    if (!this.#ended) {
      const rest = this.#exchange.responseTrailers();
      metadata = this.#exchange.responseMetadata;
      const pieces = this.#buffer.take();
      // In the other modes the proxy itself holds the bytes.
      if (rest.length > 0 && this.#mode === BODY_MODE.fullDuplexStreamed) pieces.push(rest);
      if (pieces.some((piece) => piece.length > 0)) {
        this.#replies.chunks("response", pieces, false, metadata);
        metadata = undefined;
      }
    }
    this.#replies.trailers("response", metadata);
    this.#ended = true;
  }

  #duplexChunk({ body, endOfStream: end }: ProcessingRequest, tunnel: boolean): void {
    const exchange = this.#exchange;
    // The body is a view of a whole socket read. A held piece must not keep that buffer alive.
    const chunk = exchange.responseBody(end || !exchange.holdsResponse ? body : detach(body), end);
    // The hooks have seen the end by now. Their metadata goes on the last message (epp-protocol 4.5).
    const metadata = end ? exchange.responseMetadata : undefined;
    // A body before its headers is a fault of the proxy. The phase passes it through: a held body would add a second fault.
    if (tunnel || exchange.streaming || !this.#headersSeen) {
      if (chunk.length > 0 || end) this.#replies.chunks("response", [chunk], end, metadata);
    } else {
      const ready = this.#buffer.add(chunk, exchange.holdsResponse);
      if (ready !== undefined) this.#replies.chunks("response", ready, end, metadata);
    }
    this.#ended = end;
  }

  /** One message is the whole body. Its headers have not left, so the reply can still change the length. */
  #wholeBody({ body, endOfStream }: ProcessingRequest): void {
    const chunk = this.#exchange.responseBody(body, true);
    this.#ended = true;
    const dynamicMetadata = this.#exchange.responseMetadata;
    if (chunk === body) {
      this.#replies.body("response", { dynamicMetadata });
      return;
    }
    // When the proxy's limit cut the body, the rest of it follows later: Sluice does not know its length.
    const whole = endOfStream || this.#mode === BODY_MODE.buffered;
    const set = whole ? HeaderList.of([["content-length", String(chunk.length)]]) : undefined;
    const { literalAppendAction } = this.#options;
    this.#replies.body("response", { set, literalAppendAction, dynamicMetadata }, [chunk]);
  }

  /** The proxy keeps each chunk until its reply and forwards the chunk unchanged. No later chunk could carry a rest. */
  #streamedChunk({ body, endOfStream }: ProcessingRequest): void {
    this.#exchange.responseBody(endOfStream || !this.#exchange.holdsResponse ? body : detach(body), endOfStream);
    this.#ended = endOfStream;
    const reply: CommonReply = endOfStream ? { dynamicMetadata: this.#exchange.responseMetadata } : {};
    this.#replies.body("response", reply);
  }
}

/** A response without a status counts as 200, as in the reference (epp-protocol 4.2). */
function statusOf(headers: HeaderList): number {
  const stated = headers.get(":status") ?? headers.get("status");
  return stated !== undefined && /^[1-9]\d\d$/.test(stated) ? Number(stated) : 200;
}

/** The endpoint that served, from metadata, else from the attribute (epp-protocol 8, envoy-data-plane 2.4). */
function servedOf(request: ProcessingRequest, metadata: Struct | undefined): string | undefined {
  const reported = metadata?.[HEADER.destinationServed];
  if (typeof reported === "string" && reported !== "") return reported;
  return upstreamAddressOf(request);
}

/** Holds the pieces of a non-streaming response until it ends or may no longer be held. */
class ResponseBuffer {
  #pieces: Uint8Array[] = [];

  /**
   * @param hold whether to go on holding; the exchange, which accounts for the bytes, decides
   * @returns the pieces to send now, in order; undefined while the body is held
   */
  add(chunk: Uint8Array, hold: boolean): readonly Uint8Array[] | undefined {
    this.#pieces.push(chunk);
    return hold ? undefined : this.take();
  }

  /** Returns the held pieces in order and holds them no longer. */
  take(): Uint8Array[] {
    const pieces = this.#pieces;
    this.#pieces = [];
    return pieces;
  }
}
