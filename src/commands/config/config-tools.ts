import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Document } from "../../base/document/document.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { readText } from "../../base/document/read.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { PluginKind } from "../../base/plugin/kinds.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { type EffectiveConfig, policiesOf } from "../../picker/config/effective.ts";
import { type ExplainedConfig, explainConfig } from "../../picker/config/explain.ts";
import { explainText } from "../../picker/config/explain-text.ts";
import { configJsonSchema } from "../../picker/config/json-schema.ts";
import { type LoadedConfig, loadDetailed } from "../../picker/config/load.ts";
import { type MigratedText, migrateText } from "../../picker/config/migrate-text.ts";
import { folderOf, MAX_CONFIG_BYTES, PLUGIN_MODULES } from "../../picker/core/config-source.ts";
import { instancesOf, planOf } from "../../picker/core/plan.ts";
import { PLUGIN_REGISTRY } from "../../picker/core/plugins/plugins.ts";
import type { SchedulingPlan } from "../../picker/scheduling/profile.ts";
import { gatewayJsonSchema } from "../../wires/gateway/gateway-json-schema.ts";

/** A configuration that a command reads without putting it in force. */
export interface ConfigInput {
  /** A path; `-` = standard input. */
  readonly file: string;
  /** The value of `--allow-experimental-plugins`. */
  readonly allowExperimental: boolean;
  /** The content for the path `-`. */
  readonly stdin: AsyncIterable<Uint8Array>;
}

export interface ConfigVerdict {
  /** The name of the file in messages. */
  readonly file: string;
  /** The contents in one line; undefined when the configuration is refused. */
  readonly summary: string | undefined;
  /** The reason for the refusal. */
  readonly error: Pick<SluiceError, "code" | "message"> | undefined;
  readonly warnings: readonly string[];
}

/** Checks a configuration in the same steps as a start: reads it, completes it, and creates its plugins. */
export function validateConfig(input: ConfigInput): Promise<ConfigVerdict> {
  return verdictOf(nameOf(input), () => check(input));
}

/** As `validateConfig`, for a configuration that was read. @param folder for relative paths of modules; undefined = none */
export function validateDocument(
  document: Document,
  folder: string | undefined,
  allowExperimental: boolean,
): Promise<ConfigVerdict> {
  return verdictOf(document.file, () => checkDocument(document, folder, allowExperimental));
}

async function verdictOf(file: string, read: () => Promise<Checked>): Promise<ConfigVerdict> {
  try {
    const { loaded, plan, warnings } = await read();
    return { file, summary: summaryOf(loaded, plan), error: undefined, warnings };
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    return { file, summary: undefined, error: { code: error.code, message: error.message }, warnings: [] };
  }
}

/** The document of a file or of the standard input. @throws SluiceError DOCUMENT_... */
export async function documentOf(input: ConfigInput): Promise<Document> {
  return parseDocument(await textOf(input), { file: nameOf(input) });
}

/** The configuration in full, each value with its source. @throws SluiceError for a fault in the configuration */
export async function explainConfigFile(input: ConfigInput): Promise<{ explained: ExplainedConfig; text: string }> {
  const { loaded, plan } = await check(input);
  const explained = explainConfig(
    loaded,
    plan.producers.map(({ name }) => name),
  );
  return { explained, text: explainText(explained) };
}

/** The configuration in the newest form. @throws SluiceError for a fault in the configuration */
export async function migrateConfigFile(input: ConfigInput): Promise<MigratedText> {
  const file = nameOf(input);
  const text = await textOf(input);
  const { registry } = await PLUGIN_MODULES.load(parseDocument(text, { file }), modulesFolder(input));
  return migrateText(text, registry, {
    file,
    refuseExperimental: !input.allowExperimental,
  });
}

/** The JSON Schema of a kind of file, for editors. */
export async function schemaText(kind: "picker" | "gateway" | "dispatch"): Promise<string> {
  return `${JSON.stringify(await schemaOf(kind), null, 2)}\n`;
}

async function schemaOf(kind: "picker" | "gateway" | "dispatch"): Promise<object> {
  switch (kind) {
    case "picker":
      return configJsonSchema(PLUGIN_REGISTRY);
    case "gateway":
      return gatewayJsonSchema(configJsonSchema(PLUGIN_REGISTRY));
    case "dispatch":
      // Loaded on use: the other files need nothing of the dispatcher.
      return (await import("../dispatch/dispatch-json-schema.ts")).dispatchJsonSchema();
  }
}

interface Checked {
  readonly loaded: LoadedConfig;
  readonly plan: SchedulingPlan;
  readonly warnings: readonly string[];
}

async function check(input: ConfigInput): Promise<Checked> {
  return checkDocument(await documentOf(input), modulesFolder(input), input.allowExperimental);
}

/**
 * Checks a configuration that was read.
 * @param folder for relative paths of modules; undefined = none
 * @throws SluiceError for a fault in the configuration
 */
async function checkDocument(
  document: Document,
  folder: string | undefined,
  allowExperimental: boolean,
): Promise<Checked> {
  const { registry, warnings, mistakes } = await PLUGIN_MODULES.inspect(document, folder);
  const loaded = loadDetailed(document, registry, { refuseExperimental: !allowExperimental, mistakes });
  const { config } = loaded;
  // The instances never run, so a clock that does not advance is enough.
  const instances = instancesOf(config, { clock: new VirtualClock(), random: new SeededRandom(1), log: silentLogger });
  const failures = new Set<string>();
  const attempt = <T>(make: () => T): T | undefined => {
    try {
      return make();
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error;
      failures.add(error.message);
      return undefined;
    }
  };
  try {
    const plan = attempt(() => planOf(config, instances));
    // `planOf` ends at the first plugin that fails. Then each other plugin is created alone, to find its faults.
    const others = plan === undefined ? loaded.table.values() : [];
    for (const plugin of [
      ...others,
      config.detector,
      ...policiesOf(config),
      ...config.parsers,
      ...config.hooks,
      ...config.headerProcessors,
      ...config.dataSources.flatMap(({ source, extractors }) => [source, ...extractors]),
    ])
      attempt(() => instances.make<PluginKind>(plugin));
    if (plan === undefined || failures.size > 0) throw new SluiceError("PLUGIN_CREATE", [...failures].join("\n"));
    return { loaded, plan, warnings: [...warnings, ...config.warnings] };
  } finally {
    instances.close();
  }
}

function modulesFolder({ file }: ConfigInput): string | undefined {
  return folderOf(file === "-" ? undefined : file);
}

function summaryOf({ config, envelope, table, companions }: LoadedConfig, { producers }: SchedulingPlan): string {
  const profiles = config.profiles.map(({ name, plugins }) => {
    const members = plugins.map(({ name, definition, weight }) =>
      definition.kind === "scorer" ? `${name} x ${weight}` : name,
    );
    return `profile ${name}: ${members.join(", ")}`;
  });
  const handler = config.profiles.length > 1 ? [`handler ${config.handler.name}`] : [];
  const queues = config.flowControl === undefined ? [] : [queuesOf(config.flowControl)];
  const all = [
    ...config.profiles.flatMap(({ plugins }) => plugins),
    config.handler,
    ...companions.map(({ plugin }) => plugin),
    ...producers,
    config.detector,
    ...policiesOf(config),
    ...config.dataSources.flatMap(({ source, extractors }) => [source, ...extractors]),
  ];
  const made = new Set(all.map(({ name }) => name).filter((name) => !table.has(name)));
  const more = made.size === 0 ? "" : `, ${made.size} more made automatically: ${[...made].join(", ")}`;
  const plugins = `${table.size} ${table.size === 1 ? "plugin" : "plugins"}${more}`;
  return [envelope.apiVersion, ...profiles, ...handler, ...queues, plugins].join("; ");
}

function queuesOf({ bands }: NonNullable<EffectiveConfig["flowControl"]>): string {
  const priorities = [...bands.keys()].sort((a, b) => b - a);
  return `flow control${priorities.length === 0 ? "" : `, bands ${priorities.join(", ")}`}`;
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
        `stdin is larger than ${MAX_CONFIG_BYTES} bytes, the limit for this kind of file`,
      );
    parts.push(part);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts));
  } catch (cause) {
    throw new SluiceError("DOCUMENT_ENCODING", "stdin is not UTF-8 text; save it as UTF-8", { cause });
  }
}
