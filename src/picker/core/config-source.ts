import { dirname, resolve } from "node:path";
import { realClock } from "../../base/clock/real.ts";
import type { Document } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { readDocument } from "../../base/document/read.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { BUILT_IN_PROFILES, builtInDocument } from "../config/defaults.ts";
import { type EffectiveConfig, effectiveSummary } from "../config/effective.ts";
import { configFingerprint } from "../config/fingerprint.ts";
import { loadConfig } from "../config/load.ts";
import { withLegacyEnvironment } from "./legacy-environment.ts";
import { PluginModules } from "./plugins/plugin-modules.ts";

/** The largest configuration, bytes. */
export const MAX_CONFIG_BYTES = 1024 * 1024;

/** Modules of users, as this process has imported them. */
export const PLUGIN_MODULES = new PluginModules(realClock);

/** Where a configuration comes from; nothing = the built-in default. */
export interface ConfigSource {
  readonly configFile?: string | undefined;
  readonly configText?: string | undefined;
  /** Name of a built-in profile, instead of a file or a text. */
  readonly profile?: string | undefined;
  /** Alpha plugins may be named (scheduling 3.1). */
  readonly allowExperimental?: boolean | undefined;
  /** Environment, of which v0.3's scheduler took its constants. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
}

/**
 * Reads the configuration and says in the log what is in force.
 * @throws SluiceError DOCUMENT_..., PLUGIN_LOAD, with every problem and its line; FLAG_CONFLICT, FLAG_VALUE
 */
export async function readConfig(source: ConfigSource, log: Logger): Promise<EffectiveConfig> {
  const config = await checkedConfig(source, log);
  log.info({ configuration: configFingerprint(config), ...effectiveSummary(config) }, "configuration in force");
  return config;
}

/** As `readConfig`, for a configuration that may yet come into force. */
export async function checkedConfig(source: ConfigSource, log: Logger): Promise<EffectiveConfig> {
  const document = await documentOf(source);
  const { registry, warnings } = await PLUGIN_MODULES.load(document, folderOf(source.configFile));
  const loaded = loadConfig(document, registry, { refuseExperimental: source.allowExperimental !== true });
  const config = withLegacyEnvironment(loaded, source.env ?? {}, log);
  for (const warning of [...warnings, ...config.warnings]) log.warn({}, warning);
  return config;
}

/** Where the modules start that a configuration names by relative paths; undefined = nowhere. */
export function folderOf(configFile: string | undefined): string | undefined {
  return configFile === undefined ? undefined : dirname(resolve(configFile));
}

async function documentOf({ configFile, configText, profile }: ConfigSource): Promise<Document | undefined> {
  if (profile !== undefined && (configFile !== undefined || configText !== undefined))
    throw new SluiceError(
      "FLAG_CONFLICT",
      "--profile chooses a built-in configuration and cannot be combined with one that is given",
    );
  if (configFile !== undefined) return readDocument(configFile, { maxBytes: MAX_CONFIG_BYTES });
  if (configText !== undefined) return parseDocument(configText, { file: "--config-text" });
  if (profile === undefined) return undefined;
  const document = builtInDocument(profile);
  if (document !== undefined) return document;
  const hint = didYouMean(profile, BUILT_IN_PROFILES) || `; there are ${BUILT_IN_PROFILES.join(", ")}`;
  throw new SluiceError("FLAG_VALUE", `--profile=${JSON.stringify(profile.slice(0, 100))} is not a profile${hint}`);
}
