import type { Caller } from "../../base/inference/caller.ts";
import type { DecisionRecord } from "../../base/inference/decision-record.ts";
import type { AttemptFailure, Endpoint } from "../../base/inference/endpoint.ts";
import type { HeaderList } from "../../base/inference/headers.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";

/**
 * The endpoints that a proxy allows for one request (epp-protocol 6): each entry is an address with or without a port. An empty
 * list allows none. Without a hint (undefined), the whole pool is allowed.
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

/** The request goes to the first of `endpoints`. A wire that retries uses the others in order. */
export interface Routed {
  readonly kind: "routed";
  /** In order of preference, at least one, at most eight. */
  readonly endpoints: readonly Endpoint[];
  /** The address that gets the request for the first endpoint, that of a sidecar beside it; undefined = the endpoint's own. */
  readonly via?: string | undefined;
  /** The number of endpoints that the picker offers to a proxy that takes a list (`maxNumOfEndpoints`). */
  readonly offered: number;
  /** The bytes to forward, in pieces: the received bytes, spliced where the model name changed. Empty without a body. */
  readonly body: readonly Uint8Array[];
  /** Sum of the lengths of `body`. */
  readonly bodyLength: number;
  /** Undefined for a request without a body: it goes to a random endpoint without scheduling. */
  readonly record: DecisionRecord | undefined;
  /** Headers that plugins set on the forwarded request. */
  readonly headers: HeaderList | undefined;
  /** Names of received headers, lower case, that the wire must leave out of the forwarded request; at most 65. */
  readonly removed?: readonly string[] | undefined;
  /** Headers that make the model server a part of the request's trace. They win over the headers of clients and plugins. */
  readonly trace?: HeaderList | undefined;
  /** Dynamic metadata that plugins add for the proxy. */
  readonly metadata: DynamicMetadata | undefined;
  /** The weighted sum of each scored endpoint, by `ip:port`. Only with `emitScores`. */
  readonly scores: Readonly<Record<string, number>> | undefined;
  /** Sluice reads nothing from the answer, so a wire may skip it (epp-protocol 4.6). */
  readonly skipResponse: boolean;
}

/** The answer to a complete request. */
export type Decision = Routed | Rejection;

/** How an exchange ended, as the wire saw it. */
export type EndCause =
  /** The wire passed on the whole response. */
  | "complete"
  /** The client, or the proxy for the client, ended the request early. */
  | "client-gone"
  /** The connection to the model server broke after the response had begun. */
  | "interrupted"
  /** The proxy never showed a response, and none is expected: it processes only the request phase. */
  | "no-response-phase"
  /** Sluice answered with a rejection. */
  | "rejected"
  /** Sluice itself failed. */
  | "error";

/** The calls that an exchange makes on the wire that carries it. */
export interface Wire {
  /** Stops reading the request body, because the byte budget of the process is full. */
  pauseRequest(): void;
  resumeRequest(): void;
  /**
   * Ends the running exchange to make room for others (epp-protocol 5.5). The wire answers with `rejection` if that is still
   * possible, else it cuts the response. A wire that has passed on the whole response ignores the call.
   */
  evict(rejection: Rejection): void;
  /** The client's address as the wire knows it, apart from the headers: an IP address, perhaps with a port. */
  clientAddress?(): string | undefined;
  /** IP address at the other end of the connection: the client's, or that of a proxy before this one. */
  readonly peer?: string | undefined;
  /** The client that the wire has recognised; undefined where clients need no key. */
  readonly caller?: Caller | undefined;
  /** Attempts after the first one; undefined where the wire makes none. */
  readonly retries?: number;
  /** The answer that the wire itself gives to a request that breaks HTTP or stalls; it then ends the exchange as client-gone. */
  readonly ownAnswer?: { readonly status: number; readonly reason: string } | undefined;
}

/**
 * One inference exchange, from first header to last byte. Both wires use this interface. Calls come in the order of the
 * interface; `end` may come at any time and counts once.
 */
export interface Exchange {
  /** `x-request-id` of the client, or a generated UUID. Before `requestHeaders`, a generated id. */
  readonly requestId: string;
  /** Whether Sluice generated the request id. */
  readonly requestIdGenerated: boolean;
  /** Whether the wire passes on the response chunk by chunk: `stream: true` in the request or an SSE content type. */
  readonly streaming: boolean;
  /**
   * Whether a wire that returns a response as a whole may go on holding it: the byte budget counts its bytes. False when the
   * response is too large, when the budget is full, and after the end of the response.
   */
  readonly holdsResponse: boolean;

  /**
   * @param headers with the pseudo headers (`:method`, `:path`)
   * @param end no body follows, and the call returns the decision at once
   * @returns undefined while the body is missing
   */
  requestHeaders(headers: HeaderList, end: boolean, subset?: SubsetHint): Decision | undefined;
  /**
   * @param chunk copied, unless it is the whole body: then the exchange keeps a reference to it until it is routed
   * @returns undefined until the body is complete or refused; then the decision, or its promise while the request waits
   */
  requestBody(chunk: Uint8Array, end: boolean, subset?: SubsetHint): Decision | Promise<Decision> | undefined;
  /** Returns the bytes of the forwarded body to the byte budget: the wire no longer needs the body, not even for a retry. */
  releaseBody(): void;
  /**
   * An attempt failed before any response byte. Moves the in-flight count and marks the endpoint.
   * @returns the next endpoint of the list that was not tried and is not down, or the rejection to answer with
   */
  attemptFailed(endpoint: Endpoint, failure: AttemptFailure, detail: string): Endpoint | Rejection;
  /** The proxy reports the address that served the request (`ip:port`). The address of no endpoint changes nothing. */
  servedBy(hostPort: string): void;
  /**
   * Headers for every answer: the limits of the caller where it has any, and the decision where the request asked for it.
   * `responseHeaders` returns them too; the wire adds them to a rejection. Undefined before the decision.
   */
  readonly ownHeaders: HeaderList | undefined;
  /** Whether the length of the response body may change on the way, so that a declared `content-length` is wrong. */
  readonly rewritesResponse: boolean;
  /**
   * @param status HTTP status of the model server
   * @param end no body follows
   * @param metadata the values that the proxy attached in the namespace `envoy.lb`
   * @returns headers that plugins set on the response; undefined when none did
   */
  responseHeaders(
    status: number,
    headers: HeaderList,
    end: boolean,
    metadata?: Readonly<Record<string, unknown>>,
  ): HeaderList | undefined;
  /**
   * Returns the bytes to pass on. They are the same bytes, unless a model name is restored: then the end of a chunk may wait.
   * @param parts chunks of the model server that came together in this one; by default 1
   */
  responseBody(chunk: Uint8Array, end: boolean, parts?: number): Uint8Array;
  /** Trailers end the response body. Returns the bytes that waited. */
  responseTrailers(): Uint8Array;
  /** Metadata that plugins made from the complete response. Undefined before its end, or when there is none. */
  readonly responseMetadata: DynamicMetadata | undefined;
  /**
   * Ends the exchange and counts it, exactly once: later calls do nothing.
   * @param rejection the answer to the client, where the wire itself decided it
   */
  end(cause: EndCause, rejection?: Rejection): void;
}
