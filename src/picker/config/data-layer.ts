import type { Path } from "../../base/document/document.ts";
import { didYouMean, nearest } from "../../base/document/nearest.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { Payload, PluginDefinition } from "../../base/plugin/kinds.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import type { ConfiguredPlugin, EffectiveDataSource } from "./effective.ts";
import type { Envelope } from "./envelope.ts";
import { defaultOf, isOfKind, type PluginTable, referencedPlugin, type TableEntry } from "./plugins.ts";

const SOURCE = "metrics-data-source";
const EXTRACTOR = "core-metrics-extractor";
/** The extractor of pods, which is a producer: it needs no source in the file. */
const TOPOLOGY = "topology-extractor";

/** What a plugin of each payload is for in messages, and the usual reader of a source that delivers it. */
const PAYLOADS: Readonly<Record<Payload, { readonly words: string; readonly reader: string }>> = {
  metrics: { words: "the metrics", reader: EXTRACTOR },
  "cluster-metrics": { words: "the cluster metrics", reader: "multicluster-metrics-extractor" },
  "gpu-metrics": { words: "the GPU metrics", reader: "dcgm-extractor" },
  models: { words: "the model lists", reader: "models-data-extractor" },
  endpoints: { words: "the notifications", reader: "approx-prefix-cache-producer" },
  pods: { words: "the notifications", reader: TOPOLOGY },
};

/** Pages in the text format of Prometheus: each extractor of one reads those of the others, too. */
const TEXT_PAGES: ReadonlySet<Payload> = new Set(["metrics", "cluster-metrics", "gpu-metrics"]);
/** The values that plugins know as the load of an endpoint come from these. */
const LOAD: ReadonlySet<Payload> = new Set(["metrics", "cluster-metrics"]);

function payloadOf({ payload = "metrics" }: PluginDefinition): Payload {
  return payload;
}

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
    into.push({
      path: ["data"],
      problem: "the file has dataLayer and also data, its old name; merge both into dataLayer",
    });
  else if (data) warn(["data"], "data is deprecated; write dataLayer");
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
    const delivered = source !== undefined && isSource(source) ? payloadOf(source.definition) : "metrics";
    const readers: TableEntry[] = [];
    (extractors ?? []).forEach((extractor, index) => {
      const place = [...path, "extractors", index, "pluginRef"];
      const plugin = referenced(extractor.pluginRef, place);
      if (plugin === undefined) return;
      const { type } = plugin.definition;
      const isTold = delivered === "endpoints" || delivered === "pods";
      const other = readers.find((one) => (isTold ? one.name === plugin.name : one.definition.type === type));
      const unfit = whyUnfit(plugin, delivered, pluginRef);
      if (unfit !== undefined) into.push({ path: place, problem: unfit });
      else if (other !== undefined)
        into.push({
          path: place,
          problem: `${pluginRef} already has an extractor of type ${type}; keep one of the two`,
        });
      else readers.push(plugin);
    });
    if (source === undefined) return;
    const place = [...path, "pluginRef"];
    if (!isSource(source)) into.push({ path: place, problem: notA("a data source", source) });
    else if (sources.some((other) => other.source.name === source.name)) {
      const problem = `${name}.sources lists ${pluginRef} twice; keep one entry, with the extractors of both`;
      into.push({ path: place, problem });
    } else {
      sources.push({ source, extractors: readers });
      const { words, reader } = PAYLOADS[delivered];
      if (readers.length === 0)
        warn(path, `no extractor reads ${words} of ${pluginRef}; give it extractors: [{pluginRef: ${reader}}]`);
    }
  });
  if (section?.injectDefaults !== false) {
    if (!sources.some(({ source }) => LOAD.has(payloadOf(source.definition))))
      sources.push({ source: usual(SOURCE, "data-source"), extractors: [usual(EXTRACTOR, "extractor")] });
  } else if (!sources.some(({ source }) => LOAD.has(payloadOf(source.definition))))
    warn(
      [name, "injectDefaults"],
      "without a source, Sluice reads no metrics: all endpoints look alike, and utilization-detector counts all of them as saturated; list sources, or remove `injectDefaults`",
    );
  return sources;

  function usual<K extends "data-source" | "extractor">(type: string, kind: K): ConfiguredPlugin<K> {
    const configured = table.get(type);
    return configured !== undefined && isOfKind(kind)(configured) ? configured : defaultOf(type, kind, registry);
  }
}

/** Why a plugin cannot be an extractor of a source; undefined = it can. */
function whyUnfit(plugin: TableEntry, delivered: Payload, source: string): string | undefined {
  const { definition, name } = plugin;
  const { words, reader } = PAYLOADS[delivered];
  if (delivered === "endpoints")
    return definition.kind === "producer"
      ? undefined
      : `the plugin ${name} is a ${definition.kind}, and this source notifies only producers; name a producer`;
  if (delivered === "pods")
    return definition.type === TOPOLOGY ? undefined : `the plugin ${name} cannot read pods; name a ${TOPOLOGY}`;
  if (!isExtractor(plugin)) return notA("an extractor", plugin);
  const reads = payloadOf(definition);
  if (reads === delivered || (TEXT_PAGES.has(reads) && TEXT_PAGES.has(delivered))) return undefined;
  return `the extractor ${name} reads ${PAYLOADS[reads].words}, but ${source} delivers ${words}; name a ${reader}`;
}

/**
 * Checks that the data which plugins score or filter by is collected (scheduling 3.4, 3.15).
 * @param members of profiles that are in the file
 * @param into receives members that are useless without their data
 * @param warn called for members that read an attribute which nothing writes
 */
export function checkCollected(
  members: readonly ConfiguredPlugin[],
  sources: readonly EffectiveDataSource[],
  table: PluginTable,
  into: Violation[],
  warn: (path: Path, text: string) => void,
): void {
  const readers = sources.flatMap(({ extractors }) => extractors);
  const written = new Set(readers.flatMap(attributesOf));
  // Several profiles may name one plugin.
  for (const member of new Map(members.map((one) => [one.name, one])).values()) {
    const { name, definition } = member;
    const path = table.get(name)?.path ?? [];
    const { needs } = definition;
    if (needs !== undefined && !readers.some(({ definition }) => payloadOf(definition) === needs)) {
      const { reader } = PAYLOADS[needs];
      const problem = `plugin ${name} needs the data of a ${reader}, but no source in dataLayer.sources has this extractor; add it`;
      into.push({ path, problem });
    }
    for (const key of attributesOf(member)) {
      if (written.has(key)) continue;
      const [attribute, producer] = partsOf(key);
      const near = nearest(key, written);
      const hint =
        near === undefined
          ? `; configure ${producer || "an extractor"} in dataLayer.sources to write it`
          : `; did you mean \`${partsOf(near)[0]}\` of ${partsOf(near)[1]}?`;
      warn(path, `plugin ${name} reads the attribute ${attribute}, which no endpoint has${hint}`);
    }
  }
}

/** Attribute and producer of a key; an attribute may have slashes. */
function partsOf(key: string): readonly [string, string] {
  const at = key.lastIndexOf("/");
  return [key.slice(0, at), key.slice(at + 1)];
}

function attributesOf({ definition, parameters }: ConfiguredPlugin): readonly string[] {
  // Wrong parameters are already reported.
  return parameters === undefined ? [] : (definition.endpointAttributes?.(parameters) ?? []);
}

const isDiscovery = isOfKind("discovery");
const isSource = isOfKind("data-source");
const isExtractor = isOfKind("extractor");

function notA(what: string, { name, definition }: TableEntry): string {
  return `the plugin ${name} is not ${what} but a ${definition.kind}`;
}
