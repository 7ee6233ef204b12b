/** The body of a request: all bytes, or pieces in order. */
export type RequestBody = Uint8Array | readonly Uint8Array[];

/** A request to a model server over HTTP/1.1. */
export interface UpstreamRequest {
  readonly method: string;
  /** Origin form: path and query. */
  readonly path: string;
  /**
   * Name, value, name, value; names in lower case. Begins with `host`. A body in pieces needs `content-length`; otherwise the
   * transport writes it.
   */
  readonly headers: readonly string[];
  readonly body?: RequestBody | undefined;
}

/** What may be done with a request that a connection carries. No call has an effect once the request is over. */
export interface UpstreamController {
  /** Stops reading the answer. A few bytes that are read already may stay in memory. */
  pause(): void;
  resume(): void;
  /** Stops reading behind the present piece of the answer, of which nothing waits, until `wake`. */
  rest(): void;
  wake(): void;
  /** Ends the request and its connection; `onResponseError` gets `reason`. */
  abort(reason: Error): void;
}

/** Receives the events of one request. The last one is `onResponseEnd` or `onResponseError`. */
export interface UpstreamHandler {
  /** A connection carries the request; its first byte follows. */
  onRequestStart(controller: UpstreamController): void;
  /** The transport holds no more of the body than what one write to the socket holds. */
  onRequestSent(): void;
  /** The first byte of an answer, even if the bytes turn out not to be HTTP. May repeat, since interim answers are answers. */
  onResponseStarted(): void;
  /** @param headers name, value, name, value as they arrived; every byte is a character */
  onResponseStart(status: number, headers: readonly string[]): void;
  /** What one read had of the body. The handler may keep the bytes. @param parts pieces in which the server sent them, as far as HTTP shows */
  onResponseData(bytes: Buffer, parts: number): void;
  onResponseEnd(): void;
  /** Before `onRequestStart`, no byte of the request has left. @param error a `RequestRefused`, or what happened to the connection */
  onResponseError(error: Error & { readonly code?: string }): void;
}

/** The connections to one endpoint. Each carries one request at a time, and is kept for the next ones. */
export interface UpstreamTransport {
  /** Sends a request. Its handler may be called before this function returns. */
  dispatch(request: UpstreamRequest, handler: UpstreamHandler): void;
  /** Closes each connection once its request is over. No request may follow. */
  close(): void;
  /** Cuts all connections. Resolves when they are closed. */
  destroy(): Promise<void>;
}

/** A request that is not valid HTTP, which therefore no connection may carry. */
export class RequestRefused extends Error {}
