import type { DecisionRecord } from "../../base/inference/decision-record.ts";
import type { AttemptFailure, Endpoint } from "../../base/inference/endpoint.ts";
import type { HeaderList } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";

/**
 * The endpoints a proxy allows for one request (epp-protocol 6): each entry an address with or without a port.
 * An empty list allows none; no hint at all (undefined) allows the whole pool.
 */
export type SubsetHint = readonly { readonly address: string; readonly port: number | undefined }[];

/** Dynamic metadata for the proxy: values by namespace and key. */
export type DynamicMetadata = Readonly<Record<string, Readonly<Record<string, MetadataValue>>>>;
export type MetadataValue =
  | null
  | string
  | number
  | boolean
  | readonly MetadataValue[]
  | { readonly [key: string]: MetadataValue };

/** The request goes to the first of `endpoints`; a wire that retries walks on. */
export interface Routed {
  readonly kind: "routed";
  /** In order of preference, at least one, at most eight. */
  readonly endpoints: readonly Endpoint[];
  /** How many of them the picker offers to a proxy that takes a list (`maxNumOfEndpoints`). */
  readonly offered: number;
  /** The bytes to forward, in pieces; the received ones, spliced where a model name changed. Empty without a body. */
  readonly body: readonly Uint8Array[];
  /** Sum of the lengths of `body`. */
  readonly bodyLength: number;
  /** Absent for header-only requests, which are spread uniformly without scheduling. */
  readonly record: DecisionRecord | undefined;
  /** Headers that plugins set on the forwarded request. */
  readonly headers: HeaderList | undefined;
  /** Names of received headers, lower case, that plugins leave out of the forwarded request, or a trace; at most 65. */
  readonly removed?: readonly string[] | undefined;
  /** Headers that make the model server a part of the request's trace; they win over everybody's. */
  readonly trace?: HeaderList | undefined;
  /** Dynamic metadata that plugins add for the proxy. */
  readonly metadata: DynamicMetadata | undefined;
  /** Weighted sum of every endpoint that was scored, by `ip:port`; only where `emitScores` asks for it. */
  readonly scores: Readonly<Record<string, number>> | undefined;
  /** Nothing is read from the answer: a wire may leave it alone (epp-protocol 4.6). */
  readonly skipResponse: boolean;
}

/** The answer to a complete request. */
export type Decision = Routed | Rejection;

/** How an exchange ended, as the wire saw it. */
export type EndCause =
  /** The response was passed on completely. */
  | "complete"
  /** The client, or the proxy in its name, went away first. */
  | "client-gone"
  /** The model server was lost after the response had begun. */
  | "interrupted"
  /** The proxy never showed us a response, and none is expected (it processes the request phase only). */
  | "no-response-phase"
  /** Answered by us with a rejection. */
  | "rejected"
  /** A failure of our own. */
  | "error";

/** What an exchange asks of the wire that carries it. */
export interface Wire {
  /** Stop reading the request body: the byte budget of the process is spent. */
  pauseRequest(): void;
  resumeRequest(): void;
  /**
   * The running exchange is given up in favour of others (epp-protocol 5.5): answer with `rejection` if that is still
   * possible, else cut the response. A wire that has passed on the whole response ignores it.
   */
  evict(rejection: Rejection): void;
  /** What the wire knows of the client's address besides the headers: an IP address, perhaps with a port. */
  clientAddress?(): string | undefined;
}

/**
 * One inference exchange, from first header to last byte, as both wires drive it.
 * Calls come in the order of the interface; `end` may come at any time and counts once.
 */
export interface Exchange {
  /** `x-request-id` of the client, or the UUID generated for it. An id of its own before `requestHeaders`. */
  readonly requestId: string;
  /** Whether the request id was generated here. */
  readonly requestIdGenerated: boolean;
  /** Whether the response is passed on chunk by chunk: `stream: true` in the request or an SSE content type. */
  readonly streaming: boolean;
  /**
   * Whether a wire that gives a response back as a whole may go on holding it: its bytes are in the budget. False once it
   * is too large or the budget is spent, and at its end.
   */
  readonly holdsResponse: boolean;

  /**
   * Pseudo headers (`:method`, `:path`) included.
   * @param end no body follows: the answer is a decision at once
   * @returns undefined while the body is awaited
   */
  requestHeaders(headers: HeaderList, end: boolean, subset?: SubsetHint): Decision | undefined;
  /**
   * @param chunk copied, unless it is the whole body: then it is kept by reference until the exchange is routed
   * @returns undefined until the body is complete or refused; afterwards the decision, or its promise while it queues
   */
  requestBody(chunk: Uint8Array, end: boolean, subset?: SubsetHint): Decision | Promise<Decision> | undefined;
  /** The forwarded body is no longer needed, for a retry or at all: gives its bytes back to the budget. */
  releaseBody(): void;
  /**
   * An attempt failed before any response byte: moves the in-flight count, marks the endpoint, and names the next one
   * on the list that was not tried and is not down, or the rejection to answer with.
   */
  attemptFailed(endpoint: Endpoint, failure: AttemptFailure, detail: string): Endpoint | Rejection;
  /** The proxy reports who really served (`ip:port`); an address of no endpoint changes nothing. */
  servedBy(hostPort: string): void;
  /**
   * What the answer says about the decision, where the request asked for it: among what `responseHeaders` returns, and for
   * the wire to send with a rejection. Undefined before the decision.
   */
  readonly decisionHeaders: HeaderList | undefined;
  /** Whether the response's body may change its length on the way: a declared `content-length` does not hold. */
  readonly rewritesResponse: boolean;
  /**
   * @param status HTTP status of the model server
   * @param end no body follows
   * @param metadata what the proxy attached in the namespace `envoy.lb`
   * @returns headers that plugins set on the response; undefined when none did
   */
  responseHeaders(
    status: number,
    headers: HeaderList,
    end: boolean,
    metadata?: Readonly<Record<string, unknown>>,
  ): HeaderList | undefined;
  /** Returns the bytes to pass on: the same ones unless a model name is restored; then the end of a chunk may wait. */
  responseBody(chunk: Uint8Array, end: boolean): Uint8Array;
  /** Trailers end the response body. Returns bytes that waited. */
  responseTrailers(): Uint8Array;
  /** Metadata that plugins made of the complete response; undefined before its end, or when there is none. */
  readonly responseMetadata: DynamicMetadata | undefined;
  /**
   * Closes the books: exactly once, later calls do nothing.
   * @param rejection what the client was answered, where the wire decided that itself
   */
  end(cause: EndCause, rejection?: Rejection): void;
}
