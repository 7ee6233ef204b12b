/** What a span carries. */
export type SpanAttributes = Readonly<Record<string, string | number>>;

/** One operation of a trace. */
export interface Span {
  /** @param kind `client` = it waits for the answer of another service, which continues the trace */
  child(name: string, attributes?: SpanAttributes, kind?: "client"): Span;
  attribute(name: string, value: string | number): void;
  /** Marks the operation as failed. @param status a fixed text, never user input */
  fail(status: string): void;
  /** Writes `traceparent`, `tracestate` and `baggage` of this span. */
  inject(set: (name: string, value: string) => void): void;
  /** A span of a trace of its own that points back to this one. */
  linked(name: string, attributes?: SpanAttributes): Span;
  end(): void;
}

/** Makes spans; does nothing at all when tracing is off. */
export interface Tracing {
  readonly on: boolean;
  /** A span whose parent is described by `carrier` (W3C trace context and baggage), or a root when it describes none. */
  start(name: string, carrier: Readonly<Record<string, string>>, attributes?: SpanAttributes): Span;
  /** Sends what is left, at most 5 s. */
  close(): Promise<void>;
}

const NO_SPAN: Span = {
  child: () => NO_SPAN,
  attribute() {},
  fail() {},
  inject() {},
  linked: () => NO_SPAN,
  end() {},
};

export const noTracing: Tracing = { on: false, start: () => NO_SPAN, close: async () => {} };
