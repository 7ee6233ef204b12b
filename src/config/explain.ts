import { z } from "zod";
import { formatPath, type Path } from "../document/document.ts";
import type { PluginDefinition } from "../plugin/kinds.ts";
import type { ConfiguredPlugin } from "./effective.ts";
import { API_VERSIONS } from "./envelope.ts";
import type { LoadedConfig } from "./load.ts";
import type { PluginTable } from "./plugins.ts";

/** A configuration with nothing left open, as a file of its own would spell it out, and where each value comes from. */
export interface ExplainedConfig {
  /** The file or flag it came from. */
  readonly source: string;
  /** An EndpointPickerConfig that means the same and leaves nothing to defaults. */
  readonly config: Readonly<Record<string, unknown>>;
  /** By path in `config`, such as `plugins[0].type`: a line of the file, a default, or why it was made. */
  readonly origins: Readonly<Record<string, string>>;
  /** Plugins that the file does not name. */
  readonly automatic: readonly { readonly name: string; readonly type: string; readonly because: string }[];
  /** Instance names of the producers in the order in which they run. */
  readonly producers: readonly string[];
  /** What each scorer counts: its weight, and its share of all weights from 0 to 1. */
  readonly weights: readonly { readonly name: string; readonly weight: number; readonly share: number }[];
  readonly warnings: readonly string[];
}

/** A producer as it runs. */
export interface RunningProducer {
  readonly definition: PluginDefinition;
  readonly name: string;
}

/**
 * Spells a configuration out.
 * @param producers what was made of it, in the order of execution; those that aren't in the file were made automatically
 */
export function explainConfig(loaded: LoadedConfig, producers: readonly RunningProducer[]): ExplainedConfig {
  return new Explaining(loaded, producers).run();
}

const COMPANION = "it belongs to a member of the profile";

type Entry = PluginTable extends Map<string, infer E> ? E : never;

class Explaining {
  readonly #loaded: LoadedConfig;
  readonly #producers: readonly RunningProducer[];
  readonly #origins: Record<string, string> = {};
  readonly #automatic: { name: string; type: string; because: string }[] = [];

  constructor(loaded: LoadedConfig, producers: readonly RunningProducer[]) {
    this.#loaded = loaded;
    this.#producers = producers;
  }

  run(): ExplainedConfig {
    const { config, envelope, table } = this.#loaded;
    const plugins: unknown[] = [...table.values()].map((plugin, at) => this.#configured(plugin, ["plugins", at]));
    for (const { plugin, because } of this.#made()) plugins.push(this.#automatically(plugin, because, plugins.length));
    this.#note(["apiVersion"], this.#version());
    this.#note(["kind"], this.#line(["kind"]));
    const scorers = config.profile.plugins.filter(({ definition }) => definition.kind === "scorer");
    const sum = scorers.reduce((total, { weight }) => total + weight, 0);
    const flowControl = { saturationDetector: { pluginRef: config.detector.name } };
    this.#note(["flowControl", "saturationDetector", "pluginRef"], this.#detectorOrigin());
    const out: Record<string, unknown> = {
      apiVersion: API_VERSIONS[0],
      kind: envelope.kind,
      plugins,
      schedulingProfiles: [this.#profile()],
      flowControl,
    };
    if (config.discovery !== undefined) {
      out["dataLayer"] = { discovery: { pluginRef: config.discovery.name } };
      const section = envelope.dataLayer ? "dataLayer" : "data";
      this.#note(["dataLayer", "discovery", "pluginRef"], this.#line([section, "discovery", "pluginRef"]));
    }
    if (config.parsers.length > 0) out["requestHandler"] = { parsers: this.#parsers() };
    return {
      source: config.source,
      config: out,
      origins: this.#origins,
      automatic: this.#automatic,
      producers: this.#producers.map(({ name }) => name),
      weights: scorers.map(({ name, weight }) => ({ name, weight, share: sum === 0 ? 0 : weight / sum })),
      warnings: config.warnings,
    };
  }

  #note(path: Path, origin: string): void {
    this.#origins[formatPath(path)] = origin;
  }

  #line(path: Path): string {
    const { document, config } = this.#loaded;
    return config.source.startsWith("built-in") ? config.source : `line ${document.positionOf(path).line}`;
  }

  #version(): string {
    const { apiVersion } = this.#loaded.envelope;
    const line = this.#line(["apiVersion"]);
    return apiVersion === API_VERSIONS[0] ? line : `${line}, where it is ${apiVersion}`;
  }

  #configured({ definition, name, entry }: Entry, at: Path): Record<string, unknown> {
    const raw = this.#raw(entry.path);
    const isNamed = entry.path[0] === "plugins" && raw?.name === name;
    const isMoved = definition.type !== raw?.type;
    const place = entry.path[0] === "plugins" && !isMoved ? [...entry.path, "type"] : entry.path;
    const unnamed = name === definition.type ? "default: the type" : `migrated from ${this.#line(place)}`;
    this.#note([...at, "name"], isNamed ? this.#line([...entry.path, "name"]) : unnamed);
    this.#note([...at, "type"], isMoved ? `migrated from ${this.#line(place)}` : this.#line(place));
    const parameters = this.#parameters(definition, entry.parameters ?? {}, [...at, "parameters"], (path) => {
      const origin = entry.origins?.get(String(path[0]));
      if (origin === undefined && !(path[0]! in (raw?.parameters ?? {}))) return "migrated: what the older release had";
      const line = this.#line(origin?.path ?? [...entry.path, "parameters", ...path]);
      if (origin === undefined || (origin.as === path[0] && entry.path[0] === "plugins" && !isMoved)) return line;
      return origin.as === path[0] ? `migrated from ${line}` : `migrated from ${line}, ${origin.as}`;
    });
    return { name, type: definition.type, ...parameters };
  }

  /** The entry of the file at a path, as it was written. */
  #raw(path: Path): RawEntry | undefined {
    let value = this.#loaded.document.value;
    for (const step of path) value = (value as Readonly<Record<string | number, unknown>> | undefined)?.[step];
    return value as RawEntry | undefined;
  }

  #automatically(
    { definition, name, parameters }: ConfiguredPlugin,
    because: string,
    index: number,
  ): Record<string, unknown> {
    const at = ["plugins", index];
    this.#automatic.push({ name, type: definition.type, because });
    this.#note([...at, "name"], "default: the type");
    this.#note([...at, "type"], `made automatically: ${because}`);
    // What is made with its defaults has them in the words of the schema; what a member brings along is told its own.
    const isDefault = JSON.stringify(definition.parameters.safeParse({}).data) === JSON.stringify(parameters ?? {});
    const given = isDefault || parameters === undefined ? {} : (parameters as Readonly<Record<string, unknown>>);
    return {
      name,
      type: definition.type,
      ...this.#parameters(definition, given, [...at, "parameters"], () => "made automatically"),
    };
  }

  /** The plugins that take part and aren't in the file, each once, with the reason. */
  *#made(): Generator<{ readonly plugin: ConfiguredPlugin; readonly because: string }> {
    const { config, table } = this.#loaded;
    const done = new Set(table.keys());
    const isBuiltIn = !config.profile.plugins.some(({ name }) => table.has(name));
    const readers = [...config.profile.plugins, ...this.#producers];
    const made: { readonly plugin: ConfiguredPlugin; readonly because: string }[] = config.profile.plugins.map(
      (plugin) => ({
        plugin,
        because: isBuiltIn ? "the file says nothing of scheduling" : "the profile has no picker",
      }),
    );
    for (const { name, definition } of this.#producers) {
      const wants = (keys: PluginDefinition["requires"]) => keys.find((key) => definition.produces.includes(key));
      const reader = readers.find((other) => wants(other.definition.requires) !== undefined);
      const because =
        reader === undefined ? COMPANION : `${reader.name} reads ${wants(reader.definition.requires)!.name}`;
      const parameters = config.producers.find((producer) => producer.name === name)?.parameters;
      made.push({ plugin: { name, definition, parameters }, because });
    }
    for (const hook of config.hooks) made.push({ plugin: hook, because: COMPANION });
    made.push({ plugin: config.detector, because: "there is always a saturation detector" });
    for (const one of made) {
      if (done.has(one.plugin.name)) continue;
      done.add(one.plugin.name);
      yield one;
    }
  }

  #profile(): Record<string, unknown> {
    const { config, envelope, table } = this.#loaded;
    const entry = envelope.schedulingProfiles?.[0];
    const at = ["schedulingProfiles", 0];
    this.#note([...at, "name"], entry === undefined ? "default" : this.#line([...at, "name"]));
    const isBuiltIn = !config.profile.plugins.some(({ name }) => table.has(name));
    const plugins = config.profile.plugins.map(({ name, definition, weight }, index) => {
      const path = [...at, "plugins", index];
      const listed = entry?.plugins?.findIndex(({ pluginRef }) => pluginRef === name) ?? -1;
      const place = [...at, "plugins", listed];
      let origin = "default: every filter, scorer and picker of the file";
      if (listed >= 0) origin = this.#line([...place, "pluginRef"]);
      else if (entry === undefined && isBuiltIn) origin = "default profile";
      else if (definition.kind === "picker" && (entry !== undefined || !table.has(name)))
        origin = table.has(name) ? "default: the first picker of the file" : "default picker";
      this.#note([...path, "pluginRef"], origin);
      if (definition.kind !== "scorer") return { pluginRef: name };
      const isGiven = listed >= 0 && typeof entry!.plugins![listed]!.weight === "number";
      const standard = isBuiltIn && entry === undefined ? "default profile" : "default";
      this.#note([...path, "weight"], isGiven ? this.#line([...place, "weight"]) : standard);
      return { pluginRef: name, weight };
    });
    return { name: config.profile.name, plugins };
  }

  #detectorOrigin(): string {
    const { config, envelope, plan, table } = this.#loaded;
    if (envelope.flowControl?.saturationDetector) return this.#line(["flowControl", "saturationDetector", "pluginRef"]);
    if (plan.detector !== undefined) return `migrated from ${this.#line(["saturationDetector"])}, thresholds in place`;
    if (envelope.saturationDetector)
      return `migrated from ${this.#line(["saturationDetector", "pluginRef"])}, saturationDetector`;
    return table.has(config.detector.name) ? "default: the plugin of that name" : "default";
  }

  #parsers(): unknown[] {
    const { config, envelope } = this.#loaded;
    return config.parsers.map(({ name }, at) => {
      const listed = envelope.requestHandler?.parsers ?? [];
      const origin =
        listed.length > 0
          ? this.#line(["requestHandler", "parsers", at, "pluginRef"])
          : `migrated from ${this.#line(["parser", "pluginRef"])}, parser`;
      this.#note(["requestHandler", "parsers", at, "pluginRef"], origin);
      return { pluginRef: name };
    });
  }

  /**
   * Parameters as given, completed with the defaults that the schema tells.
   * @param where the origin of a value that was given, by its path in the parameters
   */
  #parameters(
    { parameters: schema }: PluginDefinition,
    given: Readonly<Record<string, unknown>>,
    at: Path,
    where: (path: Path) => string,
  ): { readonly parameters?: unknown } {
    const known = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as Known;
    const complete = (value: unknown, described: Known | undefined, path: Path, origin: typeof where): unknown => {
      if (value === undefined || value === null)
        return described?.default === undefined
          ? undefined
          : complete(described.default, { ...described, default: undefined }, path, () => "default");
      const inside = Array.isArray(value)
        ? value.map((item, at) => [at, item, described?.items] as const)
        : parts(value, described);
      const out: Record<string | number, unknown> = Array.isArray(value) ? ([] as never) : {};
      for (const [key, part, known] of inside) {
        const inner = complete(part, known, [...path, key], origin);
        if (inner !== undefined) out[key] = inner;
      }
      if (typeof value === "object" && Object.keys(out).length > 0) return out;
      this.#note([...at, ...path], origin(path));
      return value;
    };
    const parameters = parts(given, known).map(
      ([key, part, inner]) => [key, complete(part, inner, [key], where)] as const,
    );
    const there = parameters.filter(([, value]) => value !== undefined);
    return there.length === 0 ? {} : { parameters: Object.fromEntries(there) };
  }
}

/** The entries of a mapping and those that its schema knows besides, each with its own schema; of other values none. */
function parts(value: unknown, known: Known | undefined): (readonly [string, unknown, Known | undefined])[] {
  if (typeof value !== "object" || value === null) return [];
  const keys = new Set([...Object.keys(value), ...Object.keys(known?.properties ?? {})]);
  return [...keys].map((key) => [key, (value as Readonly<Record<string, unknown>>)[key], known?.properties?.[key]]);
}

/** An entry of `plugins` before it was looked at. */
interface RawEntry {
  readonly name?: unknown;
  readonly type?: unknown;
  readonly parameters?: Readonly<Record<string, unknown>> | null;
}

/** What of a JSON Schema is looked at. */
interface Known {
  readonly default?: unknown;
  readonly items?: Known;
  readonly properties?: Readonly<Record<string, Known>>;
}
