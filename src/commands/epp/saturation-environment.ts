import type { Logger } from "../../base/telemetry/logger.ts";
import type { EffectiveConfig } from "../../picker/config/effective.ts";
import { noCapacityDetector, utilizationDetector } from "../../picker/flowcontrol/saturation-detectors.ts";

type Parameters = Readonly<Record<string, unknown>>;

/** v1.0's environment variables (epp-protocol 13.4), and the parameter of the detector that each one is the default of. */
const VARIABLES: readonly (readonly [name: string, parameter: string, kind: "number" | "duration"])[] = [
  ["SD_QUEUE_DEPTH_THRESHOLD", "queueDepthThreshold", "number"],
  ["SD_KV_CACHE_UTIL_THRESHOLD", "kvCacheUtilThreshold", "number"],
  ["SD_METRICS_STALENESS_THRESHOLD", "metricsStalenessThreshold", "duration"],
];

/** Those that judge by these parameters. */
const DETECTORS = [utilizationDetector, noCapacityDetector];

/**
 * `config` with the saturation detector taking from v1.0's environment variables what the configuration leaves at its
 * default. Whoever sets one is told what has come of it: the releases from v1.5 on do not read them. A value that is malformed or
 * out of range is ignored.
 */
export function withSaturationEnvironment(
  config: EffectiveConfig,
  env: Readonly<Record<string, string | undefined>>,
  log: Logger,
): EffectiveConfig {
  const { detector } = config;
  const { type } = detector.definition;
  const schema = DETECTORS.find((known) => known.type === type)?.parameters;
  const defaults = schema?.parse({}) as Parameters | undefined;
  const given = detector.parameters as Parameters;
  const found: Record<string, unknown> = {};
  for (const [name, parameter, kind] of VARIABLES) {
    const text = env[name]?.trim() ?? "";
    if (text === "") continue;
    const warn = (what: string, problem?: string): void =>
      log.warn(
        { variable: name, ...(problem === undefined ? {} : { problem }) },
        `environment variable ${name} ${what}`,
      );
    if (schema === undefined || defaults === undefined) {
      warn(`has no effect on a saturation detector of type ${type}`);
      continue;
    }
    if (given[parameter] !== defaults[parameter]) {
      warn(`has no effect: the configuration says ${parameter}`);
      continue;
    }
    const parsed = schema.safeParse({ [parameter]: kind === "number" ? Number(text) : text });
    if (parsed.success) {
      found[parameter] = (parsed.data as Parameters)[parameter];
      warn(`is deprecated; write ${parameter} into the parameters of the ${type}`);
    } else warn("is ignored: its value is not valid", parsed.error.issues[0]?.message);
  }
  // What a detector of the user has made of its parameters need not survive copying.
  if (Object.keys(found).length === 0) return config;
  return { ...config, detector: { ...detector, parameters: { ...given, ...found } } };
}
