import {
  type Attributes,
  type AttributeValue,
  type Context,
  type HrTime,
  SpanKind as Kind,
  SpanStatusCode,
  type TextMapPropagator,
  type TextMapSetter,
  TraceFlags,
  type Tracer,
  trace,
  type Span as WrappedSpan,
} from "@opentelemetry/api";
import type { Clock } from "../clock/clock.ts";
import type { Span, SpanAttributes, SpanKind, SpanValue } from "./tracing.ts";

type SetHeader = (name: string, value: string) => void;

const HEADERS: TextMapSetter<SetHeader> = { set: (set, name, value) => set(name, value) };
const KINDS: Readonly<Record<SpanKind, Kind>> = { server: Kind.SERVER, client: Kind.CLIENT };

/** State that all spans of a process share. */
export interface SpanScope {
  readonly tracer: Tracer;
  readonly propagator: TextMapPropagator;
  readonly clock: Clock;
}

/** A span of OpenTelemetry, with the context in which it is the current span. */
export class OtelSpan implements Span {
  readonly #scope: SpanScope;
  readonly #span: WrappedSpan;
  readonly #context: Context;
  /** Wall-clock milliseconds at monotonic 0, read once for all spans of a trace, so that a set clock moves none of them. */
  readonly #epoch: number;

  private constructor(scope: SpanScope, span: WrappedSpan, context: Context, epoch: number) {
    this.#scope = scope;
    this.#span = span;
    this.#context = context;
    this.#epoch = epoch;
  }

  /** The first span of this process in a trace. @param parent the parent that the request names */
  static first(scope: SpanScope, name: string, parent: Context, attributes: SpanAttributes, kind?: SpanKind): OtelSpan {
    const now = scope.clock.now();
    const epoch = scope.clock.wall() - now;
    const options = { attributes: attributesOf(attributes), kind: kindOf(kind), startTime: timeOf(epoch + now) };
    const span = scope.tracer.startSpan(name, options, parent);
    return new OtelSpan(scope, span, trace.setSpan(parent, span), epoch);
  }

  get sampled(): boolean {
    return (this.#span.spanContext().traceFlags & TraceFlags.SAMPLED) !== 0;
  }

  child(name: string, attributes: SpanAttributes = {}, kind?: SpanKind): Span {
    return this.#begin(name, attributes, { kind: kindOf(kind), startTime: this.#time(this.#scope.clock.now()) });
  }

  past(name: string, started: number, ended: number, attributes: SpanAttributes = {}, failure?: string): Span {
    const span = this.#begin(name, attributes, { kind: Kind.INTERNAL, startTime: this.#time(started) });
    if (failure !== undefined) span.fail(failure);
    span.#span.end(this.#time(ended));
    return span;
  }

  attribute(name: string, value: SpanValue): void {
    this.#span.setAttribute(name, copyOf(value));
  }

  fail(status: string): void {
    this.#span.setStatus({ code: SpanStatusCode.ERROR, message: status });
  }

  event(name: string, attributes: SpanAttributes = {}): void {
    this.#span.addEvent(name, attributesOf(attributes), this.#time(this.#scope.clock.now()));
  }

  inject(set: SetHeader): void {
    this.#scope.propagator.inject(this.#context, set, HEADERS);
  }

  linked(name: string, attributes: SpanAttributes = {}): Span {
    const links = [{ context: this.#span.spanContext() }];
    return this.#begin(name, attributes, { root: true, links, startTime: this.#time(this.#scope.clock.now()) });
  }

  end(): void {
    this.#span.end(this.#time(this.#scope.clock.now()));
  }

  /** The baggage stays the same. */
  #begin(name: string, attributes: SpanAttributes, options: Parameters<Tracer["startSpan"]>[1]): OtelSpan {
    const all = { ...options, attributes: attributesOf(attributes) };
    const span = this.#scope.tracer.startSpan(name, all, this.#context);
    return new OtelSpan(this.#scope, span, trace.setSpan(this.#context, span), this.#epoch);
  }

  #time(now: number): HrTime {
    return timeOf(this.#epoch + now);
  }
}

function kindOf(kind: SpanKind | undefined): Kind {
  return kind === undefined ? Kind.INTERNAL : KINDS[kind];
}

function attributesOf(attributes: SpanAttributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, copyOf(value)]));
}

/** OpenTelemetry's types want mutable arrays. */
function copyOf(value: SpanValue): AttributeValue {
  return typeof value === "object" ? ([...value] as string[] | number[]) : value;
}

/** Seconds and nanoseconds: OpenTelemetry takes a small plain number for a time since the start of the process. */
function timeOf(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.min(999_999_999, Math.round((ms - seconds * 1000) * 1e6))];
}
