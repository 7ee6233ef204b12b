import { ROOT_CONTEXT, type TextMapGetter, trace } from "@opentelemetry/api";
import {
  CompositePropagator,
  parseKeyPairsIntoRecord,
  setGlobalErrorHandler,
  W3CBaggagePropagator,
  W3CTraceContextPropagator,
} from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { defaultResource, resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import type { Clock } from "../clock/clock.ts";
import { messageOf, SluiceError } from "../inference/errors.ts";
import { samplerOf } from "./otel-sampler.ts";
import { OtelSpan } from "./otel-span.ts";
import type { TracingDependencies } from "./otel-tracing.ts";
import { RateLimitedLog } from "./rate-limited-log.ts";
import type { Span, SpanAttributes, Tracing } from "./tracing.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Ended spans that may wait for the collector; further ones are dropped. */
const MAX_WAITING = 2048;
/** Milliseconds that one export may take. All that wait go out together, so closing takes hardly longer. */
const EXPORT_TIMEOUT = 4_000;
/** Milliseconds after which closing gives up. */
const CLOSE_TIMEOUT = 5_000;
/** One line about a collector that cannot be reached, per minute. */
const LOG = { intervalMs: 60_000, maxKeys: 1 } as const;

const METADATA: TextMapGetter<Readonly<Record<string, string>>> = {
  get: (carrier, name) => (Object.hasOwn(carrier, name) ? carrier[name] : undefined),
  keys: (carrier) => Object.keys(carrier),
};

/**
 * Tracing by OpenTelemetry's SDK. It registers nothing globally but where its errors go: spans know their parents from
 * what they were made of, not from who runs.
 */
export class OtelTracing implements Tracing {
  readonly on = true;
  readonly #clock: Clock;
  readonly #provider: TracerProvider;
  readonly #tracer: ReturnType<TracerProvider["getTracer"]>;
  readonly #propagator = new CompositePropagator({
    propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator()],
  });

  /** @throws SluiceError TRACING_ENDPOINT when the endpoint is no address */
  constructor(endpoint: string, env: Environment, { serviceName, clock, log }: TracingDependencies) {
    this.#clock = clock;
    const url = urlOf(endpoint, env);
    const exporter = new OTLPTraceExporter({ url: url.href, timeoutMillis: EXPORT_TIMEOUT });
    const attributes = parseKeyPairsIntoRecord(env["OTEL_RESOURCE_ATTRIBUTES"]);
    const service = env["OTEL_SERVICE_NAME"]?.trim() || attributes["service.name"] || serviceName;
    const limited = new RateLimitedLog(log, clock, LOG);
    setGlobalErrorHandler((error) => {
      limited.log(
        "warn",
        "export",
        { collector: url.host, error: messageOf(error) },
        "spans could not be sent and are lost",
      );
    });
    this.#provider = new TracerProvider({
      sampler: samplerOf(env["OTEL_TRACES_SAMPLER"], env["OTEL_TRACES_SAMPLER_ARG"], log),
      resource: defaultResource().merge(resourceFromAttributes({ ...attributes, "service.name": service })),
      spanProcessors: [
        new BatchSpanProcessor({
          exporter,
          maxQueueSize: MAX_WAITING,
          exportTimeoutMillis: EXPORT_TIMEOUT,
        }),
      ],
    });
    this.#tracer = this.#provider.getTracer("sluice");
  }

  start(name: string, carrier: Readonly<Record<string, string>>, attributes: SpanAttributes = {}): Span {
    const parent = this.#propagator.extract(ROOT_CONTEXT, carrier, METADATA);
    const span = this.#tracer.startSpan(name, { attributes }, parent);
    return new OtelSpan(this.#tracer, this.#propagator, span, trace.setSpan(parent, span));
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      const limit = this.#clock.after(CLOSE_TIMEOUT, resolve);
      const done = (): void => {
        limit.cancel();
        resolve();
      };
      this.#provider.shutdown().then(done, done);
    });
  }
}

/** The endpoint with the scheme that decides about TLS: without one of its own it speaks TLS unless told otherwise. */
function urlOf(endpoint: string, env: Environment): URL {
  const insecure = env["OTEL_EXPORTER_OTLP_INSECURE"]?.trim().toLowerCase() === "true";
  const url = URL.parse(endpoint.includes("://") ? endpoint : `${insecure ? "http" : "https"}://${endpoint}`);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new SluiceError(
      "TRACING_ENDPOINT",
      `OTEL_EXPORTER_OTLP_ENDPOINT is ${JSON.stringify(endpoint)}; give http://host:port, https://host:port or host:port`,
    );
  return url;
}
