import { type EffectiveConfig, effectiveSummary } from "../config/effective.ts";
import { loadConfig } from "../config/load.ts";
import { parseDocument } from "../document/parse.ts";
import { readDocument } from "../document/read.ts";
import type { Logger } from "../telemetry/logger.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";

/** The largest configuration, bytes. */
const MAX_BYTES = 1024 * 1024;

/** Where a configuration comes from; neither = the built-in one. */
export interface ConfigSource {
  readonly configFile?: string | undefined;
  readonly configText?: string | undefined;
}

/**
 * Reads the configuration and says in the log what is in force.
 * @throws SluiceError DOCUMENT_..., with every problem and its line
 */
export async function readConfig({ configFile, configText }: ConfigSource, log: Logger): Promise<EffectiveConfig> {
  const document =
    configFile !== undefined
      ? await readDocument(configFile, { maxBytes: MAX_BYTES })
      : configText !== undefined
        ? parseDocument(configText, { file: "--config-text" })
        : undefined;
  const config = loadConfig(document, PLUGIN_REGISTRY);
  for (const warning of config.warnings) log.warn({}, warning);
  log.info(effectiveSummary(config), "configuration in force");
  return config;
}
