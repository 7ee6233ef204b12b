/** The request that a producer wrote (async-processor 4.1). */
export interface QueuedRequest {
  /** Correlates the result; may be empty. */
  readonly id: string;
  /** Unix seconds; NaN when the producer gave none. */
  readonly created: number;
  /** Unix seconds; <= 0 is invalid. */
  readonly deadline: number;
  /** The bytes of the JSON value as the producer wrote them; undefined when there is none. */
  readonly payload: Uint8Array | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  /** Extra HTTP headers. */
  readonly headers: Readonly<Record<string, string>>;
  /** Replaces the queue's request path; empty = none. */
  readonly endpoint: string;
}

/** The data that the Async Processor adds to a request on its way (async-processor 4.2, `internal`). */
export interface Routing {
  readonly retryCount: number;
  readonly queueId: string;
  /** Tells submissions of one id apart: 32 hex digits, or empty. */
  readonly requestToken: string;
  readonly requestQueueName: string;
  readonly resultQueueName: string;
  readonly correlationId: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Leases of this message that ran out. */
  readonly lostLeases: number;
}

export type EnvelopeKind = "plain" | "redis" | "pubsub";

/** A message as a broker keeps it: routing, and the request with its exact text. */
export interface Message {
  readonly routing: Routing;
  readonly kind: EnvelopeKind;
  readonly request: QueuedRequest;
  /** The JSON text of the request (`data` of the envelope), exactly as the producer wrote it. */
  readonly text: string;
}

/** Codes of results that are no HTTP answer (async-processor 4.4). */
export type ErrorCode =
  | "DEADLINE_EXCEEDED"
  | "CANCELLED"
  | "GATE_DROPPED"
  | "GATE_ERROR"
  | "INFERENCE_ERROR"
  | "INVALID_REQUEST";

/** The one result of a message (async-processor 4.4). */
export interface ResultMessage {
  readonly id: string;
  /** 0 = no HTTP answer was received. */
  readonly statusCode: number;
  /** The body of the answer, or `{"error":"..."}`. */
  readonly payload: Uint8Array;
  /** Empty = none. */
  readonly errorCode: ErrorCode | "";
  readonly errorMessage: string;
  /** Content type of the answer; written only when the payload is not UTF-8 text. */
  readonly contentType: string;
  /** A process wrote the result of a message that the store had lost; absent = no. */
  readonly recovered?: boolean;
}
