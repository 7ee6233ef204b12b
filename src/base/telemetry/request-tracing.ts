import type { Clock } from "../clock/clock.ts";
import type { Logger } from "./logger.ts";
import type { Environment } from "./otel-environment.ts";
import { startTracing } from "./otel-tracing.ts";
import { noTracing, type Tracing } from "./tracing.ts";

/**
 * Traces of requests, as the Endpoint Picker and the gateway send them (scheduling 9.1): off unless the environment says
 * where to.
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
