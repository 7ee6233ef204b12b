import type { Clock } from "../clock/clock.ts";
import type { Logger } from "./logger.ts";
import { type Environment, traceTargets } from "./otel-environment.ts";
import type { TracingDependencies } from "./otel-provider.ts";
import { noTracing, type Tracing } from "./tracing.ts";

/**
 * Tracing as the standard variables of OpenTelemetry configure it (async-processor 8.2, 8.5; scheduling 9.1). Spans go by OTLP
 * gRPC to the endpoint that the variables name, or to stdout. Without either, nothing is loaded, made or sent.
 * @param env the environment: `OTEL_TRACES_EXPORTER`, `OTEL_SDK_DISABLED`, `OTEL_EXPORTER_OTLP_ENDPOINT` and
 *   `..._INSECURE` (both also as `OTEL_EXPORTER_OTLP_TRACES_...`), `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
 *   `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG`
 * @throws SluiceError TRACING_ENDPOINT when the endpoint is no address
 */
export async function startTracing(env: Environment, dependencies: TracingDependencies): Promise<Tracing> {
  const targets = traceTargets(env, dependencies.log);
  if (!targets.console && targets.otlp === undefined) return noTracing;
  const { OtelTracing } = await import("./otel-provider.ts");
  return new OtelTracing(targets, env, dependencies);
}

/**
 * Traces of requests, as the Endpoint Picker and the gateway send them (scheduling 9.1). Off unless the environment names a
 * target.
 * @param wanted `--tracing`
 * @throws SluiceError TRACING_ENDPOINT
 */
export async function startRequestTracing(
  wanted: boolean,
  env: Environment,
  clock: Clock,
  log: Logger,
): Promise<Tracing> {
  if (!wanted) return noTracing;
  return startTracing(env, {
    ...{ serviceName: "llm-d-epp", instrumentation: "llm-d-router", sampling: "ratio" },
    ...{ clock, log },
  });
}
