import type { EffectiveConfig } from "../config/effective.ts";
import { utilizationDetector } from "../flowcontrol/utilization-detector.ts";
import type { Logger } from "../telemetry/logger.ts";

type Parameters = Readonly<Record<string, unknown>>;

/** v1.0's environment variables (epp-protocol 13.4), and the parameter of `utilization-detector` each one is the default of. */
const VARIABLES: readonly (readonly [name: string, parameter: string, kind: "number" | "duration"])[] = [
  ["SD_QUEUE_DEPTH_THRESHOLD", "queueDepthThreshold", "number"],
  ["SD_KV_CACHE_UTIL_THRESHOLD", "kvCacheUtilThreshold", "number"],
  ["SD_METRICS_STALENESS_THRESHOLD", "metricsStalenessThreshold", "duration"],
];

/**
 * `config` with the saturation detector taking from v1.0's environment variables what the configuration leaves at its
 * default. A value that is malformed or out of range is reported and ignored.
 */
export function withSaturationEnvironment(
  config: EffectiveConfig,
  env: Readonly<Record<string, string | undefined>>,
  log: Logger,
): EffectiveConfig {
  const { detector } = config;
  if (detector.definition.type !== utilizationDetector.type) return config;
  const schema = utilizationDetector.parameters;
  const defaults = schema.parse({}) as Parameters;
  const parameters: Record<string, unknown> = { ...(detector.parameters as Parameters) };
  for (const [name, parameter, kind] of VARIABLES) {
    const text = env[name]?.trim() ?? "";
    if (text === "" || parameters[parameter] !== defaults[parameter]) continue;
    const parsed = schema.safeParse({ [parameter]: kind === "number" ? Number(text) : text });
    if (parsed.success) parameters[parameter] = (parsed.data as Parameters)[parameter];
    else {
      const problem = parsed.error.issues[0]?.message;
      log.warn({ variable: name, problem }, `environment variable ${name} is ignored: its value is not valid`);
    }
  }
  return { ...config, detector: { ...detector, parameters } };
}
