import {
  type Context,
  SpanKind,
  SpanStatusCode,
  type TextMapPropagator,
  type TextMapSetter,
  type Tracer,
  trace,
  type Span as WrappedSpan,
} from "@opentelemetry/api";
import type { Span, SpanAttributes } from "./tracing.ts";

type SetHeader = (name: string, value: string) => void;

const HEADERS: TextMapSetter<SetHeader> = { set: (set, name, value) => set(name, value) };

/** A span of OpenTelemetry with the context it is the current one of. */
export class OtelSpan implements Span {
  readonly #tracer: Tracer;
  readonly #propagator: TextMapPropagator;
  readonly #span: WrappedSpan;
  readonly #context: Context;

  constructor(tracer: Tracer, propagator: TextMapPropagator, span: WrappedSpan, context: Context) {
    this.#tracer = tracer;
    this.#propagator = propagator;
    this.#span = span;
    this.#context = context;
  }

  child(name: string, attributes: SpanAttributes = {}, kind?: "client"): Span {
    const options = { attributes, kind: kind === "client" ? SpanKind.CLIENT : SpanKind.INTERNAL };
    return this.#with(this.#tracer.startSpan(name, options, this.#context));
  }

  attribute(name: string, value: string | number): void {
    this.#span.setAttribute(name, value);
  }

  fail(status: string): void {
    this.#span.setStatus({ code: SpanStatusCode.ERROR, message: status });
  }

  inject(set: SetHeader): void {
    this.#propagator.inject(this.#context, set, HEADERS);
  }

  linked(name: string, attributes: SpanAttributes = {}): Span {
    const options = { attributes, root: true, links: [{ context: this.#span.spanContext() }] };
    return this.#with(this.#tracer.startSpan(name, options, this.#context));
  }

  end(): void {
    this.#span.end();
  }

  /** The baggage stays the same. */
  #with(span: WrappedSpan): Span {
    return new OtelSpan(this.#tracer, this.#propagator, span, trace.setSpan(this.#context, span));
  }
}
