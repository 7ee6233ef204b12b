/** The attributes of a span. */
export type SpanAttributes = Readonly<Record<string, SpanValue>>;
export type SpanValue = string | number | boolean | readonly string[] | readonly number[];

/** `server` = it answers the request of another service; `client` = it waits for the answer of one. Both continue a trace. */
export type SpanKind = "server" | "client";

/** One operation of a trace. */
export interface Span {
  /** Whether it is sampled. A span that is not sampled needs neither children nor attributes. */
  readonly sampled: boolean;
  child(name: string, attributes?: SpanAttributes, kind?: SpanKind): Span;
  /**
   * A child that has already ended; it may have children of its own.
   * @param started monotonic milliseconds
   * @param ended monotonic milliseconds
   * @param failure as in `fail`, which comes too late for a span that has ended; undefined = it has not failed
   */
  past(name: string, started: number, ended: number, attributes?: SpanAttributes, failure?: string): Span;
  attribute(name: string, value: SpanValue): void;
  /** Marks the operation as failed. @param status a fixed text, never user input */
  fail(status: string): void;
  /** Notes a moment of the operation: now. */
  event(name: string, attributes?: SpanAttributes): void;
  /** Writes `traceparent`, `tracestate` and `baggage` of this span. */
  inject(set: (name: string, value: string) => void): void;
  /** A span of a trace of its own that points back to this one. */
  linked(name: string, attributes?: SpanAttributes): Span;
  end(): void;
}

/** Makes spans; does nothing when tracing is off. */
export interface Tracing {
  readonly on: boolean;
  /** A span whose parent is described by `carrier` (W3C trace context and baggage), or a root when it describes none. */
  start(name: string, carrier: Readonly<Record<string, string>>, attributes?: SpanAttributes, kind?: SpanKind): Span;
  /** Sends the remaining spans, at most 5 s. */
  close(): Promise<void>;
}

const NO_SPAN: Span = {
  sampled: false,
  child: () => NO_SPAN,
  past: () => NO_SPAN,
  attribute() {},
  fail() {},
  event() {},
  inject() {},
  linked: () => NO_SPAN,
  end() {},
};

export const noTracing: Tracing = { on: false, start: () => NO_SPAN, close: async () => {} };
