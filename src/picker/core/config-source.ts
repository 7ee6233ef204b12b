import { dirname, resolve } from "node:path";
import { realClock } from "../../base/clock/real.ts";
import type { Document } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { readDocument } from "../../base/document/read.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { Parity } from "../../base/inference/parity.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { BUILT_IN_PROFILES, builtInDocument } from "../config/defaults.ts";
import { type ConfiguredPlugin, type EffectiveConfig, effectiveSummary } from "../config/effective.ts";
import { configFingerprint } from "../config/fingerprint.ts";
import { loadConfig } from "../config/load.ts";
import { type DecisionTreeParameters, decisionTreeFilter } from "../scheduling/plugins/decision-tree-filter.ts";
import { PluginModules } from "./plugins/plugin-modules.ts";

/** The largest configuration in bytes. */
export const MAX_CONFIG_BYTES = 1024 * 1024;

/** The modules of users that this process has imported. */
export const PLUGIN_MODULES = new PluginModules(realClock);

/** The origin of a configuration; an empty object = the built-in default. */
export interface ConfigSource {
  readonly configFile?: string | undefined;
  readonly configText?: string | undefined;
  /** A configuration inside another file, which is in `folder`. */
  readonly inline?: { readonly document: Document; readonly folder: string } | undefined;
  /** Name of a built-in profile, in place of a file or a text. */
  readonly profile?: string | undefined;
  /** The configuration may name alpha plugins (scheduling 3.1). */
  readonly allowExperimental?: boolean | undefined;
  /** The release whose defaults and keys of `flowControl` count; default: those of the specification (scheduling 6.10). */
  readonly parity?: Parity | undefined;
  /** The environment, in which v0.3's scheduler found its constants. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
}

/**
 * Reads the configuration and logs it.
 * @throws SluiceError DOCUMENT_..., PLUGIN_LOAD, with every problem and its line; FLAG_CONFLICT, FLAG_VALUE
 */
export async function readConfig(source: ConfigSource, log: Logger): Promise<EffectiveConfig> {
  const config = await checkedConfig(source, log);
  reportConfig(config, log);
  return config;
}

/** Logs a configuration that is in force from now on. */
export function reportConfig(config: EffectiveConfig, log: Logger): void {
  log.info({ configuration: configFingerprint(config), ...effectiveSummary(config) }, "configuration in use");
}

/**
 * As `readConfig`, for a configuration that is not in force yet.
 * @param text the text of `configFile`, where the caller has read it
 */
export async function checkedConfig(source: ConfigSource, log: Logger, text?: string): Promise<EffectiveConfig> {
  const document = await documentOf(source, text);
  const { registry, warnings } = await PLUGIN_MODULES.load(
    document,
    source.inline?.folder ?? folderOf(source.configFile),
  );
  const { allowExperimental, parity } = source;
  const loaded = loadConfig(document, registry, { refuseExperimental: allowExperimental !== true, parity });
  const config = withLegacyEnvironment(loaded, source.env ?? {}, log);
  for (const warning of [...warnings, ...config.warnings]) log.warn({}, warning);
  return config;
}

/** Returns the folder for relative paths of modules; undefined = none. */
export function folderOf(configFile: string | undefined): string | undefined {
  return configFile === undefined ? undefined : dirname(resolve(configFile));
}

async function documentOf(
  { configFile, configText, inline, profile }: ConfigSource,
  text: string | undefined,
): Promise<Document | undefined> {
  if (profile !== undefined && (configFile !== undefined || configText !== undefined))
    throw new SluiceError(
      "FLAG_CONFLICT",
      "--profile chooses a built-in configuration and cannot be combined with another configuration",
    );
  if (configFile !== undefined)
    return text === undefined
      ? readDocument(configFile, { maxBytes: MAX_CONFIG_BYTES })
      : parseDocument(text, { file: configFile });
  if (inline !== undefined) return inline.document;
  if (configText !== undefined) return parseDocument(configText, { file: "--config-text" });
  if (profile === undefined) return undefined;
  const document = builtInDocument(profile);
  if (document !== undefined) return document;
  const hint = didYouMean(profile, BUILT_IN_PROFILES) || `; the profiles are ${BUILT_IN_PROFILES.join(", ")}`;
  throw new SluiceError("FLAG_VALUE", `--profile=${JSON.stringify(profile.slice(0, 100))} is not a profile${hint}`);
}

const WHOLE = /^[+-]?\d{1,15}$/;
const REAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** v0.3's environment variables (scheduling 2.1), each with the parameter whose default it sets. */
const VARIABLES: readonly (readonly [name: string, parameter: keyof DecisionTreeParameters, syntax: RegExp])[] = [
  ["KV_CACHE_THRESHOLD", "kvCacheThreshold", REAL],
  ["QUEUE_THRESHOLD_CRITICAL", "queueThresholdCritical", WHOLE],
  ["QUEUING_THRESHOLD_LORA", "queuingThresholdLoRA", WHOLE],
  ["LORA_AFFINITY_THRESHOLD", "loraAffinityThreshold", REAL],
];

/**
 * Returns `config` with values of v0.3's environment variables for the parameters of decision trees that the file lacks. A
 * value that is no number is reported and ignored. The range is not checked, as in v0.3.
 */
function withLegacyEnvironment(
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
    else log.warn({ variable: name }, `environment variable ${name} is ignored: its value is not a valid number`);
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
