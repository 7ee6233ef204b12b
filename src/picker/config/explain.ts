import { formatPath, type Path } from "../../base/document/document.ts";
import type { PluginDefinition } from "../../base/plugin/kinds.ts";
import { dataLayerOf, discoveryOf } from "./data-layer.ts";
import type { ConfiguredPlugin, EffectiveProfile } from "./effective.ts";
import { API_VERSIONS, isCurrent, V1 } from "./envelope.ts";
import { explainFlowControl, explainPolicies } from "./explain-flow-control.ts";
import { completeParameters } from "./explain-parameters.ts";
import type { LoadedConfig } from "./load.ts";
import type { TableEntry } from "./plugins.ts";

/** A complete configuration, as a file without defaults would contain it, and the origin of each value. */
export interface ExplainedConfig {
  /** The file or flag of the configuration. */
  readonly source: string;
  /** An EndpointPickerConfig with the same meaning and without defaults. */
  readonly config: Readonly<Record<string, unknown>>;
  /** By path in `config`, such as `plugins[0].type`: a line of the file, a default, or the reason why Sluice added it. */
  readonly origins: Readonly<Record<string, string>>;
  /** Plugins that the file does not name. */
  readonly automatic: readonly { readonly name: string; readonly type: string; readonly because: string }[];
  /** Instance names of the producers in the order of their execution. */
  readonly producers: readonly string[];
  /** The producers whose data each plugin reads. */
  readonly reads: readonly { readonly plugin: string; readonly producers: readonly string[] }[];
  /** Whether requests queue: always, never, or while InferenceModels of a v1alpha2 pool are present. */
  readonly queueing: "on" | "off" | "with InferenceModels";
  /** The weight of each scorer in its profile, and its share of all weights from 0 to 1. */
  readonly weights: readonly ScorerWeight[];
  readonly warnings: readonly string[];
}

export interface ScorerWeight {
  readonly profile: string;
  readonly name: string;
  readonly weight: number;
  readonly share: number;
}

/**
 * Completes a configuration.
 * @param producers instance names of the producers in the order of execution; those that are not in the file were added
 *   automatically
 */
export function explainConfig(loaded: LoadedConfig, producers: readonly string[]): ExplainedConfig {
  return new Explaining(loaded, producers).run();
}

class Explaining {
  readonly #loaded: LoadedConfig;
  readonly #producers: readonly string[];
  readonly #origins: Record<string, string> = {};
  readonly #automatic: { name: string; type: string; because: string }[] = [];

  constructor(loaded: LoadedConfig, producers: readonly string[]) {
    this.#loaded = loaded;
    this.#producers = producers;
  }

  run(): ExplainedConfig {
    const { config, envelope, table } = this.#loaded;
    const plugins: unknown[] = [...table.values()].map((plugin, at) => this.#configured(plugin, ["plugins", at]));
    for (const { plugin, because } of this.#made()) plugins.push(this.#automatically(plugin, because, plugins.length));
    this.#note(["apiVersion"], this.#version());
    this.#note(["kind"], this.#line(["kind"]));
    this.#note(["flowControl", "saturationDetector", "pluginRef"], this.#detectorOrigin());
    const { flowControl: queues, ...gates } = explainFlowControl({
      ...{ loaded: this.#loaded, raw: (path) => this.#raw(path) },
      ...{ line: (path) => this.#line(path), note: (path, origin) => this.#note(path, origin) },
    });
    const out: Record<string, unknown> = {
      apiVersion: isCurrent(envelope.apiVersion) ? envelope.apiVersion : API_VERSIONS[0],
      kind: envelope.kind,
      ...gates,
      plugins,
      schedulingProfiles: config.profiles.map((profile, at) => this.#profile(profile, at)),
      flowControl: { saturationDetector: { pluginRef: config.detector.name }, ...(queues ?? {}) },
    };
    const dataLayer = this.#dataLayer();
    if (Object.keys(dataLayer).length > 0) out["dataLayer"] = dataLayer;
    if (config.parsers.length > 0) out["requestHandler"] = { parsers: this.#parsers() };
    return {
      source: config.source,
      config: out,
      origins: this.#origins,
      automatic: this.#automatic,
      producers: this.#producers,
      reads: this.#reads(),
      queueing:
        config.flowControl !== undefined
          ? "on"
          : config.modelFlowControl !== undefined
            ? "with InferenceModels"
            : "off",
      weights: config.profiles.flatMap(weightsOf),
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
    return isCurrent(apiVersion) ? line : `${line}, where it is ${apiVersion}`;
  }

  #configured({ definition, name, entry }: TableEntry, at: Path): Record<string, unknown> {
    const raw = this.#raw(entry.path) as RawEntry | undefined;
    const isNamed = entry.path[0] === "plugins" && raw?.name === name;
    const isMoved = definition.type !== raw?.type;
    const place = entry.path[0] === "plugins" && !isMoved ? [...entry.path, "type"] : entry.path;
    const unnamed = name === definition.type ? "default: the type" : `migrated from ${this.#line(place)}`;
    this.#note([...at, "name"], isNamed ? this.#line([...entry.path, "name"]) : unnamed);
    this.#note([...at, "type"], isMoved ? `migrated from ${this.#line(place)}` : this.#line(place));
    const parameters = this.#parameters(definition, entry.parameters ?? {}, [...at, "parameters"], (path) => {
      const origin = entry.origins?.get(String(path[0]));
      if (origin === undefined && !(path[0]! in (raw?.parameters ?? {})))
        return "migrated: the value of the older release";
      const line = this.#line(origin?.path ?? [...entry.path, "parameters", ...path]);
      if (origin === undefined || (origin.as === path[0] && entry.path[0] === "plugins" && !isMoved)) return line;
      return origin.as === path[0] ? `migrated from ${line}` : `migrated from ${line}, ${origin.as}`;
    });
    if (!entry.module) return { name, type: definition.type, ...parameters };
    this.#note([...at, "module"], this.#line([...entry.path, "module"]));
    return { name, type: definition.type, module: entry.module, ...parameters };
  }

  /** Returns the value of the file at a path, as written. */
  #raw(path: Path): unknown {
    let value = this.#loaded.document.value;
    for (const step of path) value = (value as Readonly<Record<string | number, unknown>> | undefined)?.[step];
    return value;
  }

  #automatically(
    { definition, name, parameters }: ConfiguredPlugin,
    because: string,
    index: number,
  ): Record<string, unknown> {
    const at = ["plugins", index];
    this.#automatic.push({ name, type: definition.type, because });
    this.#note([...at, "name"], name === definition.type ? "default: the type" : "made automatically");
    this.#note([...at, "type"], `made automatically: ${because}`);
    // Default parameters come from the schema. A companion may have other parameters: then those are the given ones.
    const isDefault = JSON.stringify(definition.parameters.safeParse({}).data) === JSON.stringify(parameters ?? {});
    const given = isDefault || parameters === undefined ? {} : (parameters as Readonly<Record<string, unknown>>);
    return {
      name,
      type: definition.type,
      ...this.#parameters(definition, given, [...at, "parameters"], () => "made automatically"),
    };
  }

  /** Returns the plugins that take part and are not in the file, each once, with the reason. */
  *#made(): Generator<{ readonly plugin: ConfiguredPlugin; readonly because: string }> {
    const { config, table, companions, bindings } = this.#loaded;
    const done = new Set(table.keys());
    const made: { readonly plugin: ConfiguredPlugin; readonly because: string }[] = config.profiles.flatMap((profile) =>
      profile.plugins.map((plugin) => ({
        plugin,
        because: this.#isBuiltIn(profile) ? "the file has no scheduling section" : "the profile has no picker",
      })),
    );
    made.push({ plugin: config.handler, because: "one profile needs no other handler" });
    for (const { plugin, by } of companions) made.push({ plugin, because: `it belongs to ${by}` });
    for (const name of this.#producers) {
      const binding = bindings.find(({ producer }) => producer.name === name);
      if (binding === undefined) continue;
      const { reader, key, producer } = binding;
      made.push({ plugin: producer, because: `${reader.name} reads ${key.name}` });
    }
    for (const plugin of config.parsers) made.push({ plugin, because: "requestHandler.parsers names the type" });
    made.push({ plugin: config.detector, because: "there is always a saturation detector" });
    made.push(...explainPolicies(this.#loaded));
    for (const { source, extractors } of config.dataSources)
      for (const plugin of [source, ...extractors])
        made.push({ plugin, because: "metrics are collected unless dataLayer.injectDefaults is false" });
    for (const one of made) {
      if (done.has(one.plugin.name)) continue;
      done.add(one.plugin.name);
      yield one;
    }
  }

  /** Whether a profile is that of the built-in configuration. */
  #isBuiltIn({ plugins }: EffectiveProfile): boolean {
    return !plugins.some(({ name }) => this.#loaded.table.has(name));
  }

  #profile(profile: EffectiveProfile, index: number): Record<string, unknown> {
    const { envelope, table } = this.#loaded;
    const entry = envelope.schedulingProfiles?.[index];
    const at = ["schedulingProfiles", index];
    this.#note([...at, "name"], entry === undefined ? "default" : this.#line([...at, "name"]));
    const isBuiltIn = entry === undefined && this.#isBuiltIn(profile);
    const plugins = profile.plugins.map(({ name, definition, weight }, index) => {
      const path = [...at, "plugins", index];
      const listed = entry?.plugins?.findIndex(({ pluginRef }) => pluginRef === name) ?? -1;
      const place = [...at, "plugins", listed];
      let origin = "default: every filter, scorer and picker of the file";
      if (listed >= 0) origin = this.#line([...place, "pluginRef"]);
      else if (isBuiltIn) origin = "default profile";
      else if (definition.kind === "picker" && (entry !== undefined || !table.has(name)))
        origin = table.has(name) ? "default: the first picker of the file" : "default picker";
      this.#note([...path, "pluginRef"], origin);
      if (definition.kind !== "scorer") return { pluginRef: name };
      const isGiven = listed >= 0 && typeof entry!.plugins![listed]!.weight === "number";
      const standard = isBuiltIn ? "default profile" : "default";
      this.#note([...path, "weight"], isGiven ? this.#line([...place, "weight"]) : standard);
      return { pluginRef: name, weight };
    });
    return { name: profile.name, plugins };
  }

  #dataLayer(): Record<string, unknown> {
    const { config, envelope, table } = this.#loaded;
    const [section, layer] = dataLayerOf(envelope);
    const out: Record<string, unknown> = {};
    if (config.discovery !== undefined) {
      const isV1 = envelope.apiVersion === V1;
      const reference = { pluginRef: config.discovery.name };
      out["discovery"] = isV1 ? { endpoints: reference } : reference;
      const place = isV1 ? ["endpoints", "pluginRef"] : ["pluginRef"];
      this.#note(["dataLayer", "discovery", ...place], this.#line([section, ...discoveryOf(layer)!.path]));
    }
    if (layer?.injectDefaults === false) {
      out["injectDefaults"] = false;
      this.#note(["dataLayer", "injectDefaults"], this.#line([section, "injectDefaults"]));
    }
    if (config.dataSources.length === 0) return out;
    const listed = layer?.sources ?? [];
    out["sources"] = config.dataSources.map(({ source, extractors }, at) => {
      const isListed = listed[at]?.pluginRef === source.name;
      const refer = (name: string, path: Path): { readonly pluginRef: string } => {
        const standard = table.has(name) ? "default: the plugin of that name" : "default";
        this.#note(["dataLayer", ...path], isListed ? this.#line([section, ...path]) : standard);
        return { pluginRef: name };
      };
      const path = ["sources", at];
      const readers = extractors.map(({ name }, index) => refer(name, [...path, "extractors", index, "pluginRef"]));
      const reference = refer(source.name, [...path, "pluginRef"]);
      return readers.length === 0 ? reference : { ...reference, extractors: readers };
    });
    return out;
  }

  #reads(): ExplainedConfig["reads"] {
    const found = new Map<string, Set<string>>();
    for (const { reader, producer } of this.#loaded.bindings) {
      const producers = found.get(reader.name) ?? new Set<string>();
      found.set(reader.name, producers.add(producer.name));
    }
    return [...found].map(([plugin, producers]) => ({ plugin, producers: [...producers] }));
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

  /** Returns the parameters of a plugin with their defaults, where it has any. @param where as in `completeParameters` */
  #parameters(
    definition: PluginDefinition,
    given: Readonly<Record<string, unknown>>,
    at: Path,
    where: (path: Path) => string,
  ): { readonly parameters?: unknown } {
    const parameters = completeParameters(definition, given, where, (path, origin) =>
      this.#note([...at, ...path], origin),
    );
    return parameters === undefined ? {} : { parameters };
  }
}

function weightsOf({ name: profile, plugins }: EffectiveProfile): readonly ScorerWeight[] {
  const scorers = plugins.filter(({ definition }) => definition.kind === "scorer");
  const sum = scorers.reduce((total, { weight }) => total + weight, 0);
  return scorers.map(({ name, weight }) => ({ profile, name, weight, share: sum === 0 ? 0 : weight / sum }));
}

/** An entry of `plugins` before any check. */
interface RawEntry {
  readonly name?: unknown;
  readonly type?: unknown;
  readonly parameters?: Readonly<Record<string, unknown>> | null;
}
