import { redacted } from "../../../base/inference/secrets.ts";
import { explainConfig } from "../../config/explain.ts";
import { explainText } from "../../config/explain-text.ts";
import { loadDetailed } from "../../config/load.ts";
import type { InferenceCore } from "../inference-core.ts";

/** The longest text of a configuration, and of the parameters of one plugin, in characters. */
const MAX_TEXT = 256 * 1024;
const MAX_PARAMETERS = 4096;

/** The configuration in force, for people. */
export interface ConfigView {
  /** As `configHash` of decision records. */
  readonly hash: string;
  /** The file or flag, or the name of the built-in configuration. */
  readonly origin: string;
  /** Complete YAML, with a comment on the origin of each value; null when it is too long. Secrets are left out. */
  readonly text: string | null;
  /** Wall-clock milliseconds. */
  readonly since: number;
  readonly plugins: readonly { readonly name: string; readonly type: string; readonly parameters: string }[];
  readonly profiles: readonly {
    readonly name: string;
    readonly filters: readonly string[];
    readonly scorers: readonly { readonly name: string; readonly weight: number }[];
    readonly picker: string;
  }[];
  readonly flowControl: boolean;
  readonly warnings: readonly string[];
}

/** Describes the configuration in force. Computed on each call. */
export function configView(core: InferenceCore): ConfigView {
  const { config, since, plan } = core.configured;
  const loaded = loadDetailed(config.document, config.registry, { parity: config.parity });
  const explained = explainConfig(
    loaded,
    plan.producers.map(({ name }) => name),
  );
  const text = explainText({
    ...explained,
    config: redacted(explained.config) as Readonly<Record<string, unknown>>,
  });
  return {
    hash: plan.configHash,
    origin: config.source,
    text: text.length > MAX_TEXT ? null : text,
    since,
    plugins: core.pluginStates().map(({ name, type }) => ({
      name,
      type,
      parameters: parametersOf(config.configured.find((plugin) => plugin.name === name)?.parameters),
    })),
    profiles: plan.profiles.map(({ name, filters, scorers, picker }) => ({
      name,
      filters: filters.map((filter) => filter.name),
      scorers: scorers.map((scorer) => ({ name: scorer.name, weight: scorer.weight })),
      picker: picker.name,
    })),
    flowControl: core.backlog !== undefined,
    warnings: config.warnings,
  };
}

/** The parameters of a plugin as JSON, without secrets; cut off where they are long. */
export function parametersOf(parameters: unknown): string {
  const json = JSON.stringify(redacted(parameters ?? {})) ?? "{}";
  return json.length > MAX_PARAMETERS ? `${json.slice(0, MAX_PARAMETERS)}...` : json;
}
