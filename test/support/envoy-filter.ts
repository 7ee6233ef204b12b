import type { Plain } from "./extproc-client.ts";

/** One direction of an exchange as Envoy's filter keeps track of it. */
class Direction {
  headersSent = false;
  headersAnswered = false;
  bodySent = false;
  eosSent = false;
  eosBack = false;
  sentBytes = 0;
  readonly back: Buffer[] = [];

  get backBytes(): number {
    return this.back.reduce((sum, part) => sum + part.length, 0);
  }

  /** Something was given away and has not come back. */
  get outstanding(): boolean {
    return (
      (this.headersSent && !this.headersAnswered) ||
      this.sentBytes !== this.backBytes ||
      (this.eosSent && this.bodySent && !this.eosBack)
    );
  }
}

/** The most body bytes one reply may hold. */
const MAX_CHUNK = 62_000;

/**
 * The rules of Envoy's ext_proc filter in FULL_DUPLEX_STREAMED (envoy-data-plane 1.4, 1.5): sees what is sent and what
 * comes back, in order, and notes every reply that would be spurious, every illegal header and every end that would cut
 * a body short.
 */
export class EnvoyFilter {
  readonly request = new Direction();
  readonly response = new Direction();
  readonly violations: string[] = [];
  immediate: Plain | undefined;

  sent(message: Plain): void {
    for (const [name, direction] of [
      ["request", this.request],
      ["response", this.response],
    ] as const) {
      const headers = message[`${name}Headers`];
      if (headers !== undefined) {
        direction.headersSent = true;
        direction.eosSent = headers.endOfStream === true;
      }
      const body = message[`${name}Body`];
      // A repeated end is reported for some versions; nothing is owed for it.
      if (body === undefined || direction.eosSent) continue;
      direction.bodySent = true;
      direction.sentBytes += body.body.length;
      if (body.endOfStream === true) direction.eosSent = true;
    }
  }

  replied(reply: Plain): void {
    if (this.immediate !== undefined) this.#violated("a reply after an immediate response");
    if (reply.immediateResponse !== undefined) this.#immediate(reply.immediateResponse);
    else if (reply.requestHeaders !== undefined) this.#headers("request", reply.requestHeaders, reply.dynamicMetadata);
    else if (reply.responseHeaders !== undefined)
      this.#headers("response", reply.responseHeaders, reply.dynamicMetadata);
    else if (reply.requestBody !== undefined) this.#body("request", reply.requestBody, reply.dynamicMetadata);
    else if (reply.responseBody !== undefined) this.#body("response", reply.responseBody, reply.dynamicMetadata);
    else this.#violated(`a reply of an unexpected kind: ${Object.keys(reply).join()}`);
  }

  /** The stream was ended by the processor. */
  ended(status: number): void {
    if (status === 0 && this.immediate === undefined && (this.request.outstanding || this.response.outstanding))
      this.#violated("status 0 while bytes are outstanding");
  }

  #headers(name: "request" | "response", { response }: Plain, metadata: Plain): void {
    const direction = this[name];
    if (!direction.headersSent && !direction.bodySent) this.#violated(`${name} headers answered before they were sent`);
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
    if (direction.eosBack) this.#violated(`${name} body answered after its end`);
    if (metadata !== undefined) this.#violated("metadata on a body reply");
    const chunk = response?.bodyMutation?.streamedResponse;
    if (chunk === undefined || Object.keys(response).length !== 1) {
      this.#violated(`a ${name} body reply that is more or less than a streamed response`);
      return;
    }
    const bytes = chunk.body ?? Buffer.alloc(0);
    if (bytes.length > MAX_CHUNK) this.#violated(`a chunk of ${bytes.length} bytes`);
    direction.back.push(Buffer.from(bytes));
    if (direction.backBytes > direction.sentBytes) this.#violated(`more ${name} bytes back than were sent`);
    if (chunk.endOfStream !== true) return;
    if (!direction.eosSent) this.#violated(`${name} end of stream that was never sent`);
    direction.eosBack = true;
  }

  #immediate(reply: Plain): void {
    this.immediate = reply;
    if (reply.details !== undefined || reply.grpcStatus !== undefined) this.#violated("details or grpc_status set");
    this.#mutation(reply.headers);
  }

  #mutation(mutation: Plain): void {
    const entries = mutation?.setHeaders ?? [];
    for (const entry of entries) {
      if (Object.keys(entry).join() !== "header") this.#violated("an append member on a header");
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
