/** One HTTP request to the gateway; always a POST. */
export interface OutboundRequest {
  /** Absolute. */
  readonly url: URL;
  /** Names and values in turn, names as they go out. */
  readonly headers: readonly string[];
  readonly body: Uint8Array;
  /** Milliseconds for the whole attempt, from connecting to the last byte of the answer. */
  readonly timeoutMs: number;
}

/** The outcome of one attempt. */
export type GatewayAnswer =
  | {
      readonly kind: "response";
      readonly status: number;
      /** Decompressed, if the server compressed it. */
      readonly body: Uint8Array;
      readonly contentType: string;
      /** Milliseconds that `Retry-After` asks for; undefined without a legal one. */
      readonly retryAfterMs: number | undefined;
      /** `x-llm-d-request-dropped-reason`; empty = none. */
      readonly dropReason: string;
    }
  /** The head came; the body did not come to its end, or was longer than allowed. */
  | {
      readonly kind: "truncated";
      readonly status: number;
      readonly retryAfterMs: number | undefined;
      readonly message: string;
      /** The body was too long, and will be next time. */
      readonly tooLong: boolean;
    }
  /** Nothing came back. */
  | { readonly kind: "no-answer"; readonly message: string }
  /** `timeoutMs` passed first. */
  | { readonly kind: "timeout"; readonly message: string }
  /** `signal` was aborted first. */
  | { readonly kind: "aborted" };

/** Sends requests to gateways over kept connections. */
export interface InferenceClient {
  /** Never rejects. */
  send(request: OutboundRequest, signal: AbortSignal): Promise<GatewayAnswer>;
  close(): Promise<void>;
}
