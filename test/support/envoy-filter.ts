import type { Plain } from "./extproc-client.ts";

/** `BodySendMode`. */
const MODE = { none: 0, streamed: 1, buffered: 2, bufferedPartial: 3, fullDuplex: 4 };

/** One direction of an exchange as Envoy's filter keeps track of it. */
class Direction {
  mode: number;
  headersSent = false;
  headersAnswered = false;
  /** Body messages that count: none behind the end. */
  bodiesSent = 0;
  bodiesAnswered = 0;
  eosSent = false;
  eosBack = false;
  trailersSent = false;
  trailersAnswered = false;
  sentBytes = 0;
  readonly sent: Buffer[] = [];
  readonly back: Buffer[] = [];

  constructor(mode: number) {
    this.mode = mode;
  }

  get backBytes(): number {
    return this.back.reduce((sum, part) => sum + part.length, 0);
  }

  get fullDuplex(): boolean {
    return this.mode === MODE.fullDuplex;
  }

  /** Everything in this direction has come back. */
  get over(): boolean {
    return this.eosBack || this.trailersAnswered;
  }
}

/** What a filter is told to expect. */
export interface FilterOptions {
  /** Where the first message announces none; FULL_DUPLEX_STREAMED both ways by default. */
  readonly modes?: { readonly request: number; readonly response: number };
  /** Bodies may change their length: bytes are not counted. */
  readonly rewrites?: boolean;
  /** `append_action` may be set. */
  readonly literal?: boolean;
}

/** The most body bytes one reply may hold. */
const MAX_CHUNK = 62_000;

/**
 * The rules of Envoy's ext_proc filter (envoy-data-plane 1.4, 1.5): sees what is sent and what comes back, in order, and
 * notes every reply that would be spurious in the modes in force, every illegal header and every end that would cut a body
 * short.
 */
export class EnvoyFilter {
  readonly request: Direction;
  readonly response: Direction;
  readonly violations: string[] = [];
  immediate: Plain | undefined;
  /** Milliseconds asked for by `override_message_timeout`. */
  readonly moreTime: number[] = [];
  readonly #options: FilterOptions;
  #observing = false;

  constructor(options: FilterOptions = {}) {
    this.#options = options;
    this.request = new Direction(options.modes?.request ?? MODE.fullDuplex);
    this.response = new Direction(options.modes?.response ?? MODE.fullDuplex);
  }

  sent(message: Plain): void {
    if (message.observabilityMode === true) this.#observing = true;
    const { protocolConfig } = message;
    if (protocolConfig != null) {
      this.request.mode = protocolConfig.requestBodyMode ?? MODE.none;
      this.response.mode = protocolConfig.responseBodyMode ?? MODE.none;
    }
    for (const [name, direction] of [
      ["request", this.request],
      ["response", this.response],
    ] as const) {
      const headers = message[`${name}Headers`];
      if (headers != null) {
        direction.headersSent = true;
        direction.eosSent = headers.endOfStream === true;
      }
      if (message[`${name}Trailers`] != null) direction.trailersSent = true;
      const body = message[`${name}Body`];
      // A repeated end is reported for some versions; nothing is owed for it.
      if (body == null || direction.eosSent || direction.trailersSent) continue;
      const bytes = Buffer.from(body.body ?? []);
      direction.bodiesSent++;
      direction.sentBytes += bytes.length;
      direction.sent.push(bytes);
      if (body.endOfStream === true) direction.eosSent = true;
    }
  }

  replied(reply: Plain): void {
    if (this.#observing) this.#violated("a reply in observability mode");
    if (this.immediate !== undefined) this.#violated("a reply after an immediate response");
    const { dynamicMetadata: metadata } = reply;
    if (reply.immediateResponse !== undefined) this.#immediate(reply.immediateResponse);
    else if (reply.requestHeaders !== undefined) this.#headers("request", reply.requestHeaders, metadata);
    else if (reply.responseHeaders !== undefined) this.#headers("response", reply.responseHeaders, metadata);
    else if (reply.requestBody !== undefined) this.#body("request", reply.requestBody, metadata);
    else if (reply.responseBody !== undefined) this.#body("response", reply.responseBody, metadata);
    else if (reply.requestTrailers !== undefined) this.#trailers("request", reply.requestTrailers);
    else if (reply.responseTrailers !== undefined) this.#trailers("response", reply.responseTrailers);
    else if (reply.overrideMessageTimeout !== undefined) this.#override(reply.overrideMessageTimeout);
    else this.#violated(`a reply of an unexpected kind: ${Object.keys(reply).join()}`);
  }

  /** The stream was ended by the processor. */
  ended(status: number): void {
    if (this.#observing) return;
    if (status === 0 && this.immediate === undefined && (this.outstanding("request") || this.outstanding("response")))
      this.#violated("status 0 while bytes are outstanding");
  }

  /** Something of this direction was given away and has not come back. */
  outstanding(name: "request" | "response"): boolean {
    const direction = this[name];
    if (direction.headersSent && !direction.headersAnswered) return true;
    if (direction.trailersSent !== direction.trailersAnswered) return true;
    if (!direction.fullDuplex) return direction.bodiesSent > direction.bodiesAnswered;
    if (this.#options.rewrites !== true && direction.sentBytes !== direction.backBytes) return true;
    return direction.eosSent && direction.bodiesSent > 0 && !direction.eosBack;
  }

  #headers(name: "request" | "response", { response }: Plain, metadata: Plain): void {
    const direction = this[name];
    if (!direction.headersSent && direction.bodiesSent === 0)
      this.#violated(`${name} headers answered before they were sent`);
    if (direction.headersAnswered) this.#violated(`${name} headers answered twice`);
    direction.headersAnswered = true;
    if (response?.bodyMutation !== undefined) this.#violated("a body on a header reply");
    if (name === "response" && (metadata !== undefined || response?.clearRouteCache !== undefined))
      this.#violated("metadata or a route change in the response phase");
    if (name === "request" && response?.clearRouteCache !== true) this.#violated("the route is not chosen again");
    this.#mutation(response?.headerMutation);
  }

  #body(name: "request" | "response", { response }: Plain, metadata: Plain): void {
    const direction = this[name];
    if (direction.headersSent && !direction.headersAnswered) this.#violated(`${name} body answered before its headers`);
    if (direction.over) this.#violated(`${name} body answered after its end`);
    if (direction.fullDuplex) this.#chunk(name, direction, response, metadata);
    else this.#whole(name, direction, response);
  }

  #chunk(name: "request" | "response", direction: Direction, response: Plain, metadata: Plain): void {
    const chunk = response?.bodyMutation?.streamedResponse;
    if (chunk === undefined || Object.keys(response).length !== 1) {
      this.#violated(`a ${name} body reply that is more or less than a streamed response`);
      return;
    }
    if (metadata !== undefined && (name === "request" || !(chunk.endOfStream === true || direction.trailersSent)))
      this.#violated("metadata on a body reply that is not the response's last");
    const bytes = chunk.body ?? Buffer.alloc(0);
    if (bytes.length > MAX_CHUNK) this.#violated(`a chunk of ${bytes.length} bytes`);
    direction.back.push(Buffer.from(bytes));
    if (this.#options.rewrites !== true && direction.backBytes > direction.sentBytes)
      this.#violated(`more ${name} bytes back than were sent`);
    if (chunk.endOfStream !== true) return;
    if (!direction.eosSent) this.#violated(`${name} end of stream that was never sent`);
    direction.eosBack = true;
  }

  #whole(name: "request" | "response", direction: Direction, response: Plain): void {
    if (response?.bodyMutation?.streamedResponse !== undefined) this.#violated("a streamed response in another mode");
    if (direction.mode === MODE.none) this.#violated(`a ${name} body reply in the mode NONE`);
    if (direction.bodiesAnswered === direction.bodiesSent) this.#violated(`more ${name} body replies than messages`);
    const sent = direction.sent[direction.bodiesAnswered++];
    const body: Uint8Array | undefined = response?.bodyMutation?.body;
    direction.back.push(Buffer.from(body ?? sent ?? []));
    this.#mutation(response?.headerMutation);
    if (direction.mode === MODE.streamed && Object.keys(response ?? {}).length > 0)
      this.#violated("a change in the mode STREAMED");
    if (direction.mode !== MODE.buffered || body === undefined) return;
    const length = (response.headerMutation?.setHeaders ?? []).find(
      ({ header }: Plain) => header.key.toLowerCase() === "content-length",
    );
    if (length === undefined || Buffer.from(length.header.rawValue).toString() !== String(body.length))
      this.#violated("a body without its content-length");
  }

  #trailers(name: "request" | "response", reply: Plain): void {
    const direction = this[name];
    if (!direction.trailersSent) this.#violated(`${name} trailers answered that were never sent`);
    if (direction.trailersAnswered) this.#violated(`${name} trailers answered twice`);
    if (direction.headersSent && !direction.headersAnswered)
      this.#violated(`${name} trailers answered before the headers`);
    if (direction.fullDuplex && this.#options.rewrites !== true && direction.sentBytes !== direction.backBytes)
      this.#violated(`${name} trailers answered before the body`);
    if (!direction.fullDuplex && direction.mode !== MODE.none && direction.bodiesSent > direction.bodiesAnswered)
      this.#violated(`${name} trailers answered before the body`);
    direction.trailersAnswered = true;
    this.#mutation(reply.headerMutation);
  }

  #override({ seconds = 0, nanos = 0 }: Plain): void {
    if (this.request.fullDuplex) this.#violated("more time asked for where nobody counts it");
    if (this.moreTime.length > 0) this.#violated("more time asked for twice");
    this.moreTime.push(Number(seconds) * 1000 + nanos / 1e6);
  }

  #immediate(reply: Plain): void {
    this.immediate = reply;
    if (this.response.over) this.#violated("an immediate response behind the whole response");
    if (reply.details !== undefined || reply.grpcStatus !== undefined) this.#violated("details or grpc_status set");
    this.#mutation(reply.headers);
  }

  #mutation(mutation: Plain): void {
    const entries = mutation?.setHeaders ?? [];
    const members = this.#options.literal === true ? "header,appendAction" : "header";
    for (const entry of entries) {
      if (Object.keys(entry).join() !== members) this.#violated("an append member on a header, or none");
      if (entry.header.value !== undefined) this.#violated("a header in `value`");
    }
    const keys = entries.map((entry: Plain) => entry.header.key.toLowerCase());
    if (new Set(keys).size !== keys.length) this.#violated("a header set twice");
    if (keys.length + (mutation?.removeHeaders?.length ?? 0) > 100) this.#violated("a mutation of over 100 entries");
  }

  #violated(what: string): void {
    this.violations.push(what);
  }
}
