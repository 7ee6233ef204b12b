import type { Path } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import type { ConfiguredPlugin, EffectiveDataSource } from "./effective.ts";
import type { Envelope } from "./envelope.ts";
import { defaultOf, isOfKind, type PluginTable, referencedPlugin, type TableEntry } from "./plugins.ts";

const SOURCE = "metrics-data-source";
const EXTRACTOR = "core-metrics-extractor";

/** Returns the section by its present name, else by its name in v1.3 and v1.4, and its name in the file. */
export function dataLayerOf({ data, dataLayer }: Envelope): readonly ["dataLayer" | "data", Envelope["dataLayer"]] {
  return dataLayer || !data ? ["dataLayer", dataLayer] : ["data", data];
}

/** Returns the reference to the discovery plugin, and its place in the section; the form of v1 goes before the older one. */
export function discoveryOf(section: Envelope["dataLayer"]): { readonly ref: string; readonly path: Path } | undefined {
  const { pluginRef, endpoints } = section?.discovery ?? {};
  if (endpoints) return { ref: endpoints.pluginRef, path: ["discovery", "endpoints", "pluginRef"] };
  return pluginRef ? { ref: pluginRef, path: ["discovery", "pluginRef"] } : undefined;
}

/**
 * Returns the discovery that the file names; undefined where it names none.
 * @param into receives a name that no plugin has, or that a plugin of another kind has
 * @param warn called for the former name of the section
 */
export function readDiscovery(
  envelope: Envelope,
  table: PluginTable,
  into: Violation[],
  warn: (path: Path, text: string) => void,
): ConfiguredPlugin<"discovery"> | undefined {
  const { data, dataLayer } = envelope;
  if (data && dataLayer)
    into.push({ path: ["data"], problem: "data is the old name of dataLayer, and the file has both; merge them" });
  else if (data) warn(["data"], "data is deprecated; it is called dataLayer now");
  const [section, layer] = dataLayerOf(envelope);
  const reference = discoveryOf(layer);
  if (reference === undefined) return undefined;
  const { ref } = reference;
  const path = [section, ...reference.path];
  const named = referencedPlugin(ref, path, "dataLayer.discovery", table, into);
  if (named === undefined || isDiscovery(named)) return named;
  into.push({ path: path, problem: `plugin ${ref} is not a discovery but a ${named.definition.kind}` });
  return undefined;
}

/**
 * Returns the sources of metrics: the listed ones, and the default source where the list has none of its type. The file may
 * forbid the default source (scheduling 4.3).
 * @param into receives the violations (scheduling 4.4)
 * @param warn called for sources without an extractor, and when no source is scraped
 * @throws SluiceError PLUGIN_TYPE_MISSING
 */
export function readDataSources(
  envelope: Envelope,
  table: PluginTable,
  registry: PluginRegistry,
  into: Violation[],
  warn: (path: Path, text: string) => void,
): EffectiveDataSource[] {
  const [name, section] = dataLayerOf(envelope);
  const sources: EffectiveDataSource[] = [];
  const referenced = (ref: string, path: Path): TableEntry | undefined => {
    const plugin = table.get(ref);
    if (plugin !== undefined) return plugin;
    const hint = didYouMean(ref, table.keys());
    into.push({ path, problem: `the plugin ${ref} is not registered${hint || `; add \`- type: ${ref}\` to plugins`}` });
    return undefined;
  };
  (section?.sources ?? []).forEach(({ pluginRef, extractors = [] }, at) => {
    const path = [name, "sources", at];
    const source = referenced(pluginRef, [...path, "pluginRef"]);
    const readers: ConfiguredPlugin<"extractor">[] = [];
    (extractors ?? []).forEach((extractor, index) => {
      const place = [...path, "extractors", index, "pluginRef"];
      const plugin = referenced(extractor.pluginRef, place);
      if (plugin === undefined) return;
      const { type } = plugin.definition;
      const other = readers.find(({ definition }) => definition.type === type);
      if (!isExtractor(plugin)) into.push({ path: place, problem: notA("an extractor", plugin) });
      else if (other !== undefined)
        into.push({ path: place, problem: `${pluginRef} is read by an extractor of type ${type} already; keep one` });
      else readers.push(plugin);
    });
    if (source === undefined) return;
    const place = [...path, "pluginRef"];
    if (!isSource(source)) into.push({ path: place, problem: notA("a data source", source) });
    else if (sources.some((other) => other.source.name === source.name)) {
      const problem = `${name}.sources lists ${pluginRef} twice; keep one, with the extractors of both`;
      into.push({ path: place, problem });
    } else {
      sources.push({ source, extractors: readers });
      if (readers.length === 0)
        warn(path, `no extractor reads the metrics of ${pluginRef}; give it extractors: [{pluginRef: ${EXTRACTOR}}]`);
    }
  });
  if (section?.injectDefaults !== false) {
    if (!sources.some(({ source }) => source.definition.type === SOURCE))
      sources.push({ source: usual(SOURCE, "data-source"), extractors: [usual(EXTRACTOR, "extractor")] });
  } else if (sources.length === 0)
    warn(
      [name, "injectDefaults"],
      "without a source Sluice reads no metrics: all endpoints look alike, and utilization-detector counts them as saturated; list sources, or remove this",
    );
  return sources;

  function usual<K extends "data-source" | "extractor">(type: string, kind: K): ConfiguredPlugin<K> {
    const configured = table.get(type);
    return configured !== undefined && isOfKind(kind)(configured) ? configured : defaultOf(type, kind, registry);
  }
}

const isDiscovery = isOfKind("discovery");
const isSource = isOfKind("data-source");
const isExtractor = isOfKind("extractor");

function notA(what: string, { name, definition }: TableEntry): string {
  return `the plugin ${name} is not ${what} but a ${definition.kind}`;
}
