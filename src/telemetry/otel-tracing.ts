import type { Clock } from "../clock/clock.ts";
import type { Logger } from "./logger.ts";
import { noTracing, type Tracing } from "./tracing.ts";

/** What tracing is started with besides the environment. */
export interface TracingDependencies {
  /** `service.name` of the spans unless the environment gives one. */
  readonly serviceName: string;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Tracing as the standard variables of OpenTelemetry configure it (async-processor 8.2, 8.5): spans go by OTLP gRPC to
 * `OTEL_EXPORTER_OTLP_ENDPOINT`. Without that nothing is loaded, made or sent.
 * @param env the environment: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_INSECURE`, `OTEL_SERVICE_NAME`,
 *   `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG`
 * @throws SluiceError TRACING_ENDPOINT when the endpoint is no address
 */
export async function startTracing(
  env: Readonly<Record<string, string | undefined>>,
  dependencies: TracingDependencies,
): Promise<Tracing> {
  const endpoint = env["OTEL_EXPORTER_OTLP_ENDPOINT"]?.trim();
  if (!endpoint) return noTracing;
  const { OtelTracing } = await import("./otel-provider.ts");
  return new OtelTracing(endpoint, env, dependencies);
}
