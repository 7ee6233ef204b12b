import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { Decision, Exchange, Routed } from "../../picker/exchange/wire.ts";
import { requestMutation } from "./header-mutation.ts";
import { BODY_MODE, type CommonReply, type ProcessingRequest } from "./messages.ts";
import { sourceAddressOf } from "./metadata.ts";
import type { Notices } from "./notices.ts";
import type { Replies } from "./replies.ts";
import type { RouteMetadata } from "./route-metadata.ts";
import { SubsetHints } from "./subset-hint.ts";
import { isBuffered, type WireOptions } from "./wire-options.ts";

/** The answer to a message: undefined (none yet), a decision now, or a decision later. */
export type Pending = Decision | Promise<Decision> | undefined;

const NOTHING = new Uint8Array(0);
const CLEAR_ROUTE_CACHE: CommonReply = { clearRouteCache: true };
const UNCHANGED: CommonReply = {};

/** The request half of a stream, in every body mode. Source: epp-protocol 2(5), 3; envoy-data-plane 1.4. */
export class RequestPhase {
  readonly #exchange: Exchange;
  readonly #replies: Replies;
  readonly #options: WireOptions;
  readonly #notices: Notices;
  readonly #metadata: RouteMetadata;
  readonly #hints: SubsetHints;
  #mode: number = BODY_MODE.fullDuplexStreamed;
  #headers: HeaderList | undefined;
  /** The message with the headers, until they are repeated in the reply. */
  #received: ProcessingRequest | undefined;
  /** The client as the attribute `source.address` names it; read only where a body follows. */
  clientAddress: string | undefined;
  /** The headers were answered without a destination, because the mode is buffered. */
  #headersAnswered = false;
  #bodySeen = false;
  /** No more of the body follows. */
  #ended = false;
  /** The proxy set `end_of_stream` on the body; the last chunk of the reply carries the flag again. */
  #endOfStream = false;
  #trailers: "none" | "received" | "answered" = "none";
  /** The proxy sent a part of the request that has no reply yet. */
  #unanswered = false;
  #routed = false;
  #tunnel = false;
  /** The decision used the headers alone: no request was read, so the reply echoes no headers (epp-protocol 3.2). */
  #unread = false;

  constructor(
    exchange: Exchange,
    replies: Replies,
    { options, notices, metadata }: { options: WireOptions; notices: Notices; metadata: RouteMetadata },
  ) {
    this.#exchange = exchange;
    this.#replies = replies;
    this.#options = options;
    this.#notices = notices;
    this.#metadata = metadata;
    this.#hints = new SubsetHints(options);
  }

  /** @param mode a number of `BODY_MODE`; the caller knows it before the first message */
  begin(mode: number): void {
    this.#mode = mode;
    if (mode === BODY_MODE.streamed) this.#notices.add("streamed-request-body");
  }

  /** The picker has sent the destination. */
  get routed(): boolean {
    return this.#routed;
  }

  /** A close now would lose bytes, or leave a request without its destination. */
  get outstanding(): boolean {
    return this.#unanswered;
  }

  /** The picker has replied to the whole request. */
  get complete(): boolean {
    return this.#routed && !this.#unanswered && (this.#ended || this.#mode === BODY_MODE.none);
  }

  /** The picker has sent the destination, but not yet the whole body. */
  get partial(): boolean {
    return this.#routed && this.#unanswered;
  }

  /** The exchange has copied the body so far, and more of it follows: it keeps a reference to the last piece alone. */
  get gathering(): boolean {
    return !this.#ended && !this.#routed;
  }

  /** Bytes flow both ways from here, and Sluice does not read them: an HTTP upgrade, or CONNECT. */
  get tunnel(): boolean {
    return this.#tunnel;
  }

  /** The proxy limits the time until each reply (envoy-data-plane 1.6). */
  get timed(): boolean {
    return this.#mode !== BODY_MODE.fullDuplexStreamed;
  }

  onHeaders(request: ProcessingRequest): Pending {
    if (this.#headers !== undefined || this.#routed) return undefined;
    const headers = request.headers ?? new HeaderList();
    this.#headers = headers;
    this.#unanswered = true;
    this.#ended = request.endOfStream;
    this.#tunnel = !this.#ended && isTunnel(headers);
    const now = this.#ended || this.#tunnel || this.#mode === BODY_MODE.none || this.#mode === BODY_MODE.streamed;
    this.#unread = now;
    this.#received = request;
    if (!now) this.clientAddress = sourceAddressOf(request);
    const subset = this.#hints.of(request);
    const decision = this.#exchange.requestHeaders(headers, now, subset);
    if (decision === undefined && isBuffered(this.#mode)) {
      // The proxy sends no body before this reply. The reply to the body carries the rest of the changes (epp-protocol 3.9).
      this.#replies.headers("request", CLEAR_ROUTE_CACHE);
      this.#headersAnswered = true;
      this.#unanswered = false;
    }
    const empty = now && subset === undefined && decision instanceof Rejection && decision.reason === "no_endpoints";
    if (empty && this.#options.legacyHeaderOnly500) return new Rejection("internal", decision.detail);
    return decision;
  }

  onBody(request: ProcessingRequest): Pending {
    // Some builds of Envoy are reported to repeat the end; the repeat needs no reply (epp-protocol 3.3, E-29).
    if (this.#ended) {
      this.#notices.add("repeated-end");
      return undefined;
    }
    this.#bodySeen = true;
    this.#endOfStream = request.endOfStream;
    // When trailers follow, the one message of a buffered body lacks the flag.
    this.#ended = request.endOfStream || isBuffered(this.#mode);
    if (this.#routed) {
      this.#passOn(request);
      return undefined;
    }
    this.#unanswered = true;
    return this.#exchange.requestBody(request.body, this.#ended, this.#hints.of(request));
  }

  /** Trailers end the body (epp-protocol 3.7). Their reply comes last. */
  onTrailers(request: ProcessingRequest): Pending {
    if (this.#trailers !== "none") return undefined;
    this.#trailers = "received";
    const ended = this.#ended;
    this.#ended = true;
    if (this.#routed) {
      this.#answerTrailers();
      return undefined;
    }
    this.#unanswered = true;
    return ended ? undefined : this.#exchange.requestBody(NOTHING, true, this.#hints.of(request));
  }

  /** Sends the destination, and replies to everything received so far. */
  route(routed: Routed): void {
    if (isBuffered(this.#mode) && this.#bodySeen) this.#replyToBody(routed);
    else if (this.#headersAnswered) this.#replyToTrailers(routed);
    else this.#replyToHeaders(routed);
    if (this.#trailers === "received") this.#answerTrailers();
    this.#unanswered = false;
    this.#received = undefined;
    // Bytes that wait for a slow reader still count in the byte budget.
    this.#replies.whenTaken(() => this.#exchange.releaseBody());
  }

  #replyToHeaders(routed: Routed): void {
    const echoes = this.#options.echoUnchangedHeaders && !this.#unread;
    this.#replies.headers("request", this.#changes(routed, routed.bodyLength, echoes));
    this.#routed = true;
    // When trailers end the body, no chunk carries the flag. An empty body without the flag needs no chunk.
    if (this.#endOfStream || routed.bodyLength > 0) this.#replies.chunks("request", routed.body, this.#endOfStream);
  }

  /** The one reply that can still change a buffered request. It names changed headers only (epp-protocol 3.9). */
  #replyToBody(routed: Routed): void {
    // When the proxy's limit cut the body, the rest of it follows later: Sluice does not know its length.
    const whole = this.#endOfStream || this.#mode === BODY_MODE.buffered;
    this.#replies.body("request", this.#changes(routed, whole ? routed.bodyLength : 0, false), routed.body);
    this.#routed = true;
  }

  /** When a proxy buffers and sends trailers without a body, only metadata can carry the destination. */
  #replyToTrailers(routed: Routed): void {
    this.#replies.trailers("request", this.#metadata.of(routed, destinationOf(routed, this.#options)));
    this.#trailers = "answered";
    this.#routed = true;
  }

  #changes(routed: Routed, contentLength: number, echoes: boolean): CommonReply {
    const exchange = this.#exchange;
    const destination = destinationOf(routed, this.#options);
    const { set, echoed, remove, literalAppendAction } = requestMutation(
      this.#headers ?? new HeaderList(),
      {
        destination,
        contentLength,
        requestId: exchange.requestIdGenerated ? exchange.requestId : undefined,
        added: addedTo(routed),
        removed: routed.removed,
      },
      this.#options,
      echoes,
      this.#received,
    );
    return {
      set,
      echoed,
      remove,
      literalAppendAction,
      clearRouteCache: true,
      dynamicMetadata: this.#metadata.of(routed, destination),
    };
  }

  /** Handles a body message after an early answer to the headers (epp-protocol 2(5)). */
  #passOn({ body, endOfStream }: ProcessingRequest): void {
    if (this.#mode !== BODY_MODE.fullDuplexStreamed) this.#replies.body("request", UNCHANGED);
    else if (body.length > 0 || endOfStream) this.#replies.chunks("request", [body], endOfStream);
  }

  #answerTrailers(): void {
    this.#replies.trailers("request");
    this.#trailers = "answered";
  }
}

/** The headers that plugins set, then the trace headers. The trace headers come last, so they win. */
function addedTo({ headers, trace }: Routed): HeaderList | undefined {
  if (trace === undefined || headers === undefined) return trace ?? headers;
  const added = new HeaderList();
  for (const { keys, values } of [headers, trace])
    for (let i = 0; i < keys.length; i++) added.add(keys[i]!, values[i]!);
  return added;
}

/**
 * True when the body never ends before its reply (epp-protocol pitfall 25). An offer of `h2c` does not count: the body of such
 * a request is an ordinary one.
 */
function isTunnel(headers: HeaderList): boolean {
  const upgrade = headers.get("upgrade");
  return (upgrade !== undefined && !/^(h2c)?$/i.test(upgrade)) || headers.get(":method") === "CONNECT";
}

/** The value of the destination: one endpoint, or all offered endpoints, primary first, comma-separated (epp-protocol 7). */
function destinationOf({ endpoints, offered, via }: Routed, { fallbackMode }: WireOptions): string {
  let text = via ?? endpoints[0]!.hostPort;
  if (fallbackMode !== "list") return text;
  for (let i = 1; i < offered && i < endpoints.length; i++) text += `,${endpoints[i]!.hostPort}`;
  return text;
}
