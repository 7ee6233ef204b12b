import { ROOT_CONTEXT, type TextMapGetter } from "@opentelemetry/api";
import {
  CompositePropagator,
  parseKeyPairsIntoRecord,
  setGlobalErrorHandler,
  W3CBaggagePropagator,
  W3CTraceContextPropagator,
} from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { defaultResource, resourceFromAttributes } from "@opentelemetry/resources";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ConsoleSpanExporter,
  ParentBasedSampler,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Clock } from "../clock/clock.ts";
import { messageOf, SluiceError } from "../inference/errors.ts";
import type { Logger } from "./logger.ts";
import { type Environment, otlpVariable, type TraceTargets } from "./otel-environment.ts";
import { OtelSpan, type SpanScope } from "./otel-span.ts";
import { RateLimitedLog } from "./rate-limited-log.ts";
import type { Span, SpanAttributes, SpanKind, Tracing } from "./tracing.ts";

/** Settings of tracing besides the environment. */
export interface TracingDependencies {
  /** `service.name` of the spans unless the environment gives one. */
  readonly serviceName: string;
  /** Name of the instrumentation scope; default `sluice`. */
  readonly instrumentation?: string;
  /**
   * `ratio`: `OTEL_TRACES_SAMPLER` can only be `parentbased_traceidratio`, and one trace in ten is sampled unless the
   * environment says otherwise (scheduling 9.1). Default: every standard sampler, and all traces.
   */
  readonly sampling?: "ratio";
  readonly clock: Clock;
  readonly log: Logger;
}

/** Ended spans that may wait for the collector; further ones are dropped. */
const MAX_WAITING = 2048;
/** Milliseconds that one export may take. All waiting spans go out together, so closing takes hardly longer. */
const EXPORT_TIMEOUT = 4_000;
/** Milliseconds after which closing gives up. */
const CLOSE_TIMEOUT = 5_000;
/** A collector that cannot be reached gets one log line per minute. */
const LOG = { intervalMs: 60_000, maxKeys: 1 } as const;

const METADATA: TextMapGetter<Readonly<Record<string, string>>> = {
  get: (carrier, name) => (Object.hasOwn(carrier, name) ? carrier[name] : undefined),
  keys: (carrier) => Object.keys(carrier),
};

/**
 * Tracing by OpenTelemetry's SDK. The SDK gets nothing global but a place for its errors. A span takes its parent from the
 * object that makes it, not from the running context.
 */
export class OtelTracing implements Tracing {
  readonly on = true;
  readonly #clock: Clock;
  readonly #provider: TracerProvider;
  readonly #scope: SpanScope;

  /** @throws SluiceError TRACING_ENDPOINT when the endpoint is no address */
  constructor(targets: TraceTargets, env: Environment, dependencies: TracingDependencies) {
    const { serviceName, clock, log, sampling } = dependencies;
    this.#clock = clock;
    const attributes = parseKeyPairsIntoRecord(env["OTEL_RESOURCE_ATTRIBUTES"]);
    const service = env["OTEL_SERVICE_NAME"]?.trim() || attributes["service.name"] || serviceName;
    const exporters: SpanExporter[] = targets.console ? [new ConsoleSpanExporter()] : [];
    let collector: string | undefined;
    if (targets.otlp !== undefined) {
      const url = urlOf(targets.otlp, env);
      collector = url.host;
      exporters.push(new OTLPTraceExporter({ url: url.href, timeoutMillis: EXPORT_TIMEOUT }));
    }
    const limited = new RateLimitedLog(log, clock, LOG);
    setGlobalErrorHandler((error) => {
      limited.log("warn", "export", { collector, error: messageOf(error) }, "spans could not be sent and are lost");
    });
    const chosen = sampling === "ratio" ? ratioSamplerOf : samplerOf;
    this.#provider = new TracerProvider({
      sampler: chosen(env["OTEL_TRACES_SAMPLER"], env["OTEL_TRACES_SAMPLER_ARG"], log),
      resource: defaultResource().merge(resourceFromAttributes({ ...attributes, "service.name": service })),
      spanProcessors: exporters.map(
        (exporter) =>
          new BatchSpanProcessor({ exporter, maxQueueSize: MAX_WAITING, exportTimeoutMillis: EXPORT_TIMEOUT }),
      ),
    });
    this.#scope = {
      tracer: this.#provider.getTracer(dependencies.instrumentation ?? "sluice"),
      propagator: new CompositePropagator({
        propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator()],
      }),
      clock,
    };
  }

  start(
    name: string,
    carrier: Readonly<Record<string, string>>,
    attributes: SpanAttributes = {},
    kind?: SpanKind,
  ): Span {
    const parent = this.#scope.propagator.extract(ROOT_CONTEXT, carrier, METADATA);
    return OtelSpan.first(this.#scope, name, parent, attributes, kind);
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

/**
 * The endpoint with a scheme, which decides about TLS. An endpoint without a scheme uses TLS unless the environment says
 * otherwise.
 */
function urlOf(endpoint: string, env: Environment): URL {
  const insecure = otlpVariable(env, "INSECURE")?.toLowerCase() === "true";
  const url = URL.parse(endpoint.includes("://") ? endpoint : `${insecure ? "http" : "https"}://${endpoint}`);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new SluiceError(
      "TRACING_ENDPOINT",
      `the OTLP endpoint is ${JSON.stringify(endpoint)}; give http://host:port, https://host:port or host:port`,
    );
  return url;
}

const DEFAULT = "parentbased_always_on";
const SAMPLERS = new Map<string, (ratio: number) => Sampler>([
  ["always_on", () => new AlwaysOnSampler()],
  ["always_off", () => new AlwaysOffSampler()],
  ["traceidratio", (ratio) => new TraceIdRatioBasedSampler(ratio)],
  [DEFAULT, () => new ParentBasedSampler({ root: new AlwaysOnSampler() })],
  ["parentbased_always_off", () => new ParentBasedSampler({ root: new AlwaysOffSampler() })],
  ["parentbased_traceidratio", (ratio) => new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) })],
]);

/**
 * The sampler that `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` name. As in OpenTelemetry, an unusable value is logged
 * as a warning and counts as not set.
 */
export function samplerOf(name: string | undefined, argument: string | undefined, log: Logger): Sampler {
  const wanted = name?.trim().toLowerCase() || DEFAULT;
  const make = SAMPLERS.get(wanted);
  if (make === undefined)
    log.warn(
      { value: name, known: [...SAMPLERS.keys()] },
      `OTEL_TRACES_SAMPLER has an unknown value; using ${DEFAULT}`,
    );
  const text = argument?.trim() ?? "";
  const ratio = text === "" ? 1 : Number(text);
  const legal = ratio >= 0 && ratio <= 1;
  if (!legal && wanted.endsWith("traceidratio"))
    log.warn({ value: argument }, "OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1; using 1");
  return (make ?? SAMPLERS.get(DEFAULT)!)(legal ? ratio : 1);
}

/** Default share of the traces that begin here which is sampled (scheduling 9.1). */
const DEFAULT_RATIO = 0.1;

/**
 * The one sampler of the reference. A trace that began elsewhere is sampled if it is sampled there; of the traces that begin
 * here, a share. Another name or a bad argument is logged as an error and counts as not set (scheduling 9.1).
 */
export function ratioSamplerOf(name: string | undefined, argument: string | undefined, log: Logger): Sampler {
  const wanted = name?.trim().toLowerCase() || "parentbased_traceidratio";
  const text = argument?.trim() ?? "";
  let ratio = text === "" ? DEFAULT_RATIO : Number(text);
  if (wanted !== "parentbased_traceidratio") {
    log.error(
      { value: name },
      `OTEL_TRACES_SAMPLER can only be parentbased_traceidratio; using this sampler with ratio ${DEFAULT_RATIO}`,
    );
    ratio = DEFAULT_RATIO;
  } else if (!(ratio >= 0 && ratio <= 1)) {
    log.error({ value: argument }, `OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1; using ${DEFAULT_RATIO}`);
    ratio = DEFAULT_RATIO;
  }
  return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
}
