import { SeededRandom } from "../clock/random.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { type ExplainedConfig, explainConfig } from "../config/explain.ts";
import { explainText } from "../config/explain-text.ts";
import { configJsonSchema } from "../config/json-schema.ts";
import { type LoadedConfig, loadDetailed } from "../config/load.ts";
import { type MigratedText, migrateText } from "../config/migrate-text.ts";
import { parseDocument } from "../document/parse.ts";
import { readText } from "../document/read.ts";
import { SluiceError } from "../inference/errors.ts";
import type { PluginDefinition } from "../plugin/kinds.ts";
import { buildProfile } from "../scheduling/build.ts";
import type { Profile } from "../scheduling/profile.ts";
import { MAX_CONFIG_BYTES } from "./config-source.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";

/** A configuration that a command of ours looks at without putting it in force. */
export interface ConfigInput {
  /** A path; `-` = standard input. */
  readonly file: string;
  /** As `--allow-experimental-plugins`. */
  readonly allowExperimental: boolean;
  /** What `-` reads. */
  readonly stdin: AsyncIterable<Uint8Array>;
}

export interface ConfigVerdict {
  /** As messages name the file. */
  readonly file: string;
  /** What it says, in one line; undefined when it is refused. */
  readonly summary: string | undefined;
  /** Why it is refused. */
  readonly error: string | undefined;
  readonly warnings: readonly string[];
}

/** Checks a configuration as far as a start would: it is read, completed, and its plugins are made. */
export async function validateConfig(input: ConfigInput): Promise<ConfigVerdict> {
  const file = nameOf(input);
  try {
    const { loaded, profile } = await check(input);
    return { file, summary: summaryOf(loaded, profile), error: undefined, warnings: loaded.config.warnings };
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    return { file, summary: undefined, error: error.message, warnings: [] };
  }
}

/** The configuration spelt out, each value with where it comes from. @throws SluiceError what is wrong with it */
export async function explainConfigFile(input: ConfigInput): Promise<{ explained: ExplainedConfig; text: string }> {
  const { loaded, profile } = await check(input);
  const explained = explainConfig(
    loaded,
    profile.producers.map(({ name, type }) => ({ name, definition: definitionOf(loaded, name, type) })),
  );
  return { explained, text: explainText(explained) };
}

/** The configuration as it would be written today. @throws SluiceError what is wrong with it */
export async function migrateConfigFile(input: ConfigInput): Promise<MigratedText> {
  return migrateText(await textOf(input), PLUGIN_REGISTRY, {
    file: nameOf(input),
    refuseExperimental: !input.allowExperimental,
  });
}

/** The JSON Schema of configurations, for editors. */
export function configSchemaText(): string {
  return `${JSON.stringify(configJsonSchema(PLUGIN_REGISTRY), null, 2)}\n`;
}

async function check(input: ConfigInput): Promise<{ readonly loaded: LoadedConfig; readonly profile: Profile }> {
  const document = parseDocument(await textOf(input), { file: nameOf(input) });
  const loaded = loadDetailed(document, PLUGIN_REGISTRY, { refuseExperimental: !input.allowExperimental });
  const { config } = loaded;
  // Nothing made here runs: the clock stands still.
  const clock = new VirtualClock();
  const random = new SeededRandom(1);
  const plugins = [...config.profile.plugins, ...config.producers];
  const profile = buildProfile({ name: config.profile.name, plugins, registry: PLUGIN_REGISTRY, clock, random });
  for (const { definition, name, parameters } of [config.detector, ...config.parsers, ...config.hooks])
    definition.create(parameters, { name, clock, random });
  return { loaded, profile };
}

function definitionOf({ table }: LoadedConfig, name: string, type: string): PluginDefinition {
  return table.get(name)?.definition ?? PLUGIN_REGISTRY.get(type)!;
}

function summaryOf({ config, envelope, table }: LoadedConfig, { producers }: Profile): string {
  const members = config.profile.plugins.map(({ name, definition, weight }) =>
    definition.kind === "scorer" ? `${name} x ${weight}` : name,
  );
  const all = [...config.profile.plugins, ...producers, config.detector, ...config.hooks];
  const made = new Set(all.map(({ name }) => name).filter((name) => !table.has(name)));
  const more = made.size === 0 ? "" : `, ${made.size} more made automatically: ${[...made].join(", ")}`;
  const plugins = `${table.size} ${table.size === 1 ? "plugin" : "plugins"}${more}`;
  return `${envelope.apiVersion}; profile ${config.profile.name}: ${members.join(", ")}; ${plugins}`;
}

function nameOf({ file }: ConfigInput): string {
  return file === "-" ? "stdin" : file;
}

async function textOf({ file, stdin }: ConfigInput): Promise<string> {
  if (file !== "-") return readText(file, { maxBytes: MAX_CONFIG_BYTES });
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of stdin) {
    size += part.length;
    if (size > MAX_CONFIG_BYTES)
      throw new SluiceError(
        "DOCUMENT_TOO_BIG",
        `stdin is larger than the ${MAX_CONFIG_BYTES} bytes accepted for such a file`,
      );
    parts.push(part);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts));
  } catch (cause) {
    throw new SluiceError("DOCUMENT_ENCODING", "stdin is not UTF-8 text; save it as UTF-8", { cause });
  }
}
