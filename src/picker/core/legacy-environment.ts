import type { Logger } from "../../base/telemetry/logger.ts";
import type { ConfiguredPlugin, EffectiveConfig } from "../config/effective.ts";
import { type DecisionTreeParameters, decisionTreeFilter } from "../scheduling/plugins/decision-tree-filter.ts";

const WHOLE = /^[+-]?\d{1,15}$/;
const REAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** v0.3's environment variables (scheduling 2.1), and what each is the default of. */
const VARIABLES: readonly (readonly [name: string, parameter: keyof DecisionTreeParameters, syntax: RegExp])[] = [
  ["KV_CACHE_THRESHOLD", "kvCacheThreshold", REAL],
  ["QUEUE_THRESHOLD_CRITICAL", "queueThresholdCritical", WHOLE],
  ["QUEUING_THRESHOLD_LORA", "queuingThresholdLoRA", WHOLE],
  ["LORA_AFFINITY_THRESHOLD", "loraAffinityThreshold", REAL],
];

/**
 * `config` with the decision trees in it taking from v0.3's environment variables what the file does not say. A value that
 * is no number is reported and ignored; its range is not checked, as it was not then.
 */
export function withLegacyEnvironment(
  config: EffectiveConfig,
  env: Readonly<Record<string, string | undefined>>,
  log: Logger,
): EffectiveConfig {
  const isTree = ({ definition }: ConfiguredPlugin): boolean => definition === decisionTreeFilter;
  if (!config.profiles.some(({ plugins }) => plugins.some(isTree))) return config;
  const found: Partial<Record<keyof DecisionTreeParameters, number>> = {};
  for (const [name, parameter, syntax] of VARIABLES) {
    const text = env[name];
    if (text === undefined || text === "") continue;
    const value = syntax.test(text) ? Number(text) : Number.NaN;
    if (Number.isFinite(value)) found[parameter] = value;
    else log.warn({ variable: name }, `environment variable ${name} is ignored: it is not a number of the right kind`);
  }
  const profiles = config.profiles.map((profile) => ({
    ...profile,
    plugins: profile.plugins.map((plugin) =>
      isTree(plugin)
        ? { ...plugin, parameters: { ...found, ...(plugin.parameters as DecisionTreeParameters) } }
        : plugin,
    ),
  }));
  return { ...config, profiles };
}
