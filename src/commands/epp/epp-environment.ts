import type { Logger } from "../../base/telemetry/logger.ts";
import type { EffectiveConfig } from "../../picker/config/effective.ts";
import { noCapacityDetector, utilizationDetector } from "../../picker/flowcontrol/saturation-detectors.ts";
import { type FlagRow, parseGoFlags } from "../common/go-flags.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Environment variables that switched features in older releases, with the syntax of boolean flags. */
const SWITCHES = [
  { name: "USE_STREAMING", type: "bool", default: "true", since: "v0.3", help: "", env: "USE_STREAMING" },
  {
    name: "ENABLE_EXPERIMENTAL_DATALAYER_V2",
    type: "bool",
    default: "false",
    since: "v1.0",
    help: "",
    env: "ENABLE_EXPERIMENTAL_DATALAYER_V2",
  },
  {
    name: "ENABLE_EXPERIMENTAL_FLOW_CONTROL_LAYER",
    type: "bool",
    default: "false",
    since: "v1.0",
    help: "",
    env: "ENABLE_EXPERIMENTAL_FLOW_CONTROL_LAYER",
  },
] as const satisfies readonly FlagRow[];

/** Every environment variable with an effect, for the reference pages: name, release, default, meaning (epp-protocol 13.4). */
const VARIABLES: readonly (readonly [name: string, since: string, fallback: string, meaning: string])[] = [
  ["NAMESPACE", "v1.5", "", "Value of `--pool-namespace`, if the flag is not given."],
  [
    "USE_STREAMING",
    "v0.3",
    "true",
    "`false` = `--ext-proc-mode=buffered`, if that flag is not given. In v0.3, the default was `false`.",
  ],
  ["SLUICE_PEERS", "ours", "", "Value of `--peers`, if the flag is not given."],
  [
    "SLUICE_PEERS_SECRET",
    "ours",
    "",
    "Salt of the block hashes that replicas share: at least 16 characters, the same in all replicas. A shorter value is an error.",
  ],
  ["KV_CACHE_THRESHOLD", "v0.3", "0.8", "Parameter of `decision-tree-filter`."],
  ["QUEUE_THRESHOLD_CRITICAL", "v0.3", "5", "Parameter of `decision-tree-filter`."],
  ["QUEUING_THRESHOLD_LORA", "v0.3", "128", "Parameter of `decision-tree-filter`."],
  ["LORA_AFFINITY_THRESHOLD", "v0.3", "0.999", "Parameter of `decision-tree-filter`."],
  [
    "SD_QUEUE_DEPTH_THRESHOLD",
    "v1.0",
    "5",
    "Parameter of `utilization-detector`, if the configuration does not change its default.",
  ],
  ["SD_KV_CACHE_UTIL_THRESHOLD", "v1.0", "0.8", "The same."],
  ["SD_METRICS_STALENESS_THRESHOLD", "v1.0", "200ms", "The same."],
  [
    "ENABLE_EXPERIMENTAL_DATALAYER_V2",
    "v1.0",
    "false",
    "No effect: the function is always on. `true` causes a warning.",
  ],
  ["ENABLE_EXPERIMENTAL_FLOW_CONTROL_LAYER", "v1.0", "false", "No effect. `true` causes a warning."],
  [
    "OTEL_TRACES_EXPORTER",
    "v1.5",
    "",
    "Exporter: `otlp`, `console` or `none`; see [tracing](../operate/tracing.md) for all `OTEL_` variables.",
  ],
  [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "v1.5",
    "",
    "Address for traces. Without this variable and OTEL_TRACES_EXPORTER, Sluice sends no traces.",
  ],
  ["OTEL_TRACES_SAMPLER_ARG", "v1.5", "0.1", "Sampled share of the traces that begin in Sluice."],
  ["OTEL_SERVICE_NAME", "v1.5", "llm-d-epp", "Service name in traces."],
];

/**
 * Reads the settings that only the environment has.
 * @returns `streaming`: false when the environment asks for v0.3's buffered server; a malformed value causes a warning and is
 *   ignored
 */
export function readEnvironment(env: Environment): {
  readonly streaming: boolean;
  readonly warnings: readonly string[];
} {
  const { values, warnings } = parseGoFlags([], SWITCHES, env);
  const dead = (["ENABLE_EXPERIMENTAL_DATALAYER_V2", "ENABLE_EXPERIMENTAL_FLOW_CONTROL_LAYER"] as const)
    .filter((name) => values[name])
    .map((name) => `environment variable ${name} has no effect: since v1.5 the configuration has this setting`);
  return { streaming: values.USE_STREAMING, warnings: [...warnings, ...dead] };
}

/** The variables as a Markdown table. */
export function environmentMarkdown(): string {
  const rows = VARIABLES.map(([name, since, fallback, meaning]) => {
    const shown = fallback === "" ? "" : `\`${fallback}\``;
    return `| \`${name}\` | ${since} | ${shown} | ${meaning} |`;
  });
  return ["| Variable | Since | Default | Meaning |", "|---|---|---|---|", ...rows, ""].join("\n");
}

type Parameters = Readonly<Record<string, unknown>>;

/** v1.0's environment variables (epp-protocol 13.4), each with the parameter of the detector whose default it sets. */
const SATURATION_VARIABLES: readonly (readonly [name: string, parameter: string, kind: "number" | "duration"])[] = [
  ["SD_QUEUE_DEPTH_THRESHOLD", "queueDepthThreshold", "number"],
  ["SD_KV_CACHE_UTIL_THRESHOLD", "kvCacheUtilThreshold", "number"],
  ["SD_METRICS_STALENESS_THRESHOLD", "metricsStalenessThreshold", "duration"],
];

/** The detectors that have these parameters. */
const DETECTORS = [utilizationDetector, noCapacityDetector];

/**
 * Returns `config` with v1.0's environment variables in the saturation detector, for parameters that the configuration leaves
 * at their default. Each variable causes a warning that says how it took effect, because releases from v1.5 on do not read it.
 * A malformed value and a value out of range are ignored.
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
  for (const [name, parameter, kind] of SATURATION_VARIABLES) {
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
      warn(`has no effect: the configuration sets ${parameter}`);
      continue;
    }
    const parsed = schema.safeParse({ [parameter]: kind === "number" ? Number(text) : text });
    if (parsed.success) {
      found[parameter] = (parsed.data as Parameters)[parameter];
      warn(`is deprecated; write ${parameter} into the parameters of the ${type}`);
    } else warn("is ignored: its value is not valid", parsed.error.issues[0]?.message);
  }
  // A user's detector may hold parameters that a copy would damage.
  if (Object.keys(found).length === 0) return config;
  return { ...config, detector: { ...detector, parameters: { ...given, ...found } } };
}
