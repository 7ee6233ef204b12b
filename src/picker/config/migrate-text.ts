import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Pair,
  parseDocument as parseYaml,
  Scalar,
  visit,
  YAMLMap,
  YAMLSeq,
  Document as YamlDocument,
} from "yaml";
import { parseDocument } from "../../base/document/parse.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import { type ConfiguredPlugin, flowControlMeaning } from "./effective.ts";
import { API_VERSIONS, isCurrent } from "./envelope.ts";
import { gateName, RETIRED_GATES } from "./gates.ts";
import { type LoadedConfig, type LoadOptions, loadDetailed } from "./load.ts";
import { DETECTOR, type PluginMove, PREFIX_PRODUCER } from "./migrate.ts";
import { DECIDER, type DeciderPlan } from "./migrate-decider.ts";
import { currentType } from "./published.ts";

export interface MigratedText {
  /** The configuration in its newest form; the given text itself when it already has that form. */
  readonly text: string;
  /** Notes for the user. */
  readonly notes: readonly string[];
}

/**
 * Rewrites a configuration of any release in its newest form. The function checks that the meaning is the same. Comments stay
 * with their entries, unless the text has anchors; JSON stays JSON.
 * @param options.file name for messages
 * @throws SluiceError DOCUMENT_... for a file that doesn't load, CONFIG_MIGRATION where the rewritten one would mean something
 *   else
 */
export function migrateText(
  text: string,
  registry: PluginRegistry,
  { file, ...options }: LoadOptions & { readonly file: string },
): MigratedText {
  const loaded = loadDetailed(parseDocument(text, { file }), registry, options);
  let document = parseYaml(text, { merge: true });
  const notes: string[] = [];
  if (hasAliases(document)) {
    document = new YamlDocument(document.toJS({ maxAliasCount: -1 })) as unknown as typeof document;
    notes.push(`${file}: the output has no comments, and aliases are expanded`);
  }
  const top = document.contents;
  if (!isMap(top) || !new Rewriting(top as YAMLMap, loaded).run()) return { text, notes: [] };
  const rewritten = isJson(text)
    ? `${JSON.stringify(document.toJS(), null, 2)}\n`
    : document.toString({ lineWidth: 0, minContentWidth: 0, ...styleOf(text) });
  const after = loadDetailed(parseDocument(rewritten, { file }), registry, options);
  if (meaningOf(after) !== meaningOf(loaded))
    throw new SluiceError(
      "CONFIG_MIGRATION",
      `Sluice cannot migrate ${file} without a change of meaning; edit the file by hand`,
    );
  return { text: rewritten, notes };
}

/** Returns the whole meaning of a configuration, with its defaults, as a text to compare. */
export function meaningOf({ config, table }: LoadedConfig): string {
  const named = ({ name, definition }: ConfiguredPlugin) => {
    const parameters = table.get(name)?.entry.parameters ?? {};
    const sorted = Object.entries(parameters).sort(([a], [b]) => (a < b ? -1 : 1));
    return [name, currentType(definition.type), sorted];
  };
  return JSON.stringify([
    config.profiles.map(({ name, plugins }) => [
      name,
      plugins.map((plugin) => [...named(plugin), plugin.definition.kind === "scorer" ? plugin.weight : 0]),
    ]),
    named(config.handler),
    config.producers.map(named),
    named(config.detector),
    config.discovery && named(config.discovery),
    config.parsers.map(named),
    config.hooks.map(named),
    config.configured.map(named),
    config.dataSources.map(({ source, extractors }) => [named(source), extractors.map(named)]),
    config.flowControl && flowControlMeaning(config.flowControl, named),
  ]);
}

/** Returns the parts of the author's style that the library can follow. */
function styleOf(text: string): { readonly flowCollectionPadding: boolean; readonly indentSeq: boolean } {
  return { flowCollectionPadding: !/\{\w/.test(text), indentSeq: !/^\w+:[ \t]*\n(?:[ \t]*#.*\n)*- /m.test(text) };
}

function hasAliases(document: YamlDocument.Parsed): boolean {
  let found = false;
  visit(document, {
    Alias() {
      found = true;
      return visit.BREAK;
    },
  });
  return found;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The tree of one file while it is rewritten. */
class Rewriting {
  readonly #top: YAMLMap;
  readonly #loaded: LoadedConfig;
  #changed = false;

  constructor(top: YAMLMap, loaded: LoadedConfig) {
    this.#top = top;
    this.#loaded = loaded;
  }

  /** Rewrites the tree. @returns whether anything changed */
  run(): boolean {
    const { envelope } = this.#loaded;
    if (!isCurrent(envelope.apiVersion)) this.#set(this.#top, "apiVersion", API_VERSIONS[0]);
    this.#data();
    this.#gates();
    this.#plugins();
    this.#detector();
    this.#parsers();
    return this.#changed;
  }

  #data(): void {
    const old = pair(this.#top, "data");
    if (old === undefined) return;
    this.#changed = true;
    if (!this.#loaded.envelope.data) this.#top.delete("data");
    else {
      // An empty section with that name would be a duplicate.
      this.#top.delete("dataLayer");
      (old.key as Scalar).value = "dataLayer";
    }
  }

  #gates(): void {
    const gates = pair(this.#top, "featureGates")?.value;
    if (!isSeq(gates)) return;
    const stay = gates.items.filter((item) => !(isScalar(item) && RETIRED_GATES.has(gateName(String(item.value)))));
    if (stay.length === gates.items.length) return;
    this.#changed = true;
    gates.items = stay;
    if (stay.length === 0) this.#top.delete("featureGates");
  }

  #plugins(): void {
    const { plan } = this.#loaded;
    const list = pair(this.#top, "plugins")?.value;
    if (isSeq(list)) {
      for (const { at, from, to } of plan.renamed) {
        const entry = list.items[at] as YAMLMap;
        this.#set(entry, "type", to);
        // Other entries refer to it by its type.
        if (!entry.get("name")) this.#set(entry, "name", from);
      }
      for (const { at, moves } of plan.producers) {
        const parameters = (list.items[at] as YAMLMap).get("parameters") as YAMLMap;
        this.#move(parameters, moves, parameters);
      }
      if (plan.prefix !== undefined) {
        const { at, moves, noTokenLimit } = plan.prefix;
        const scorer = list.items[at] as YAMLMap;
        const old = scorer.get("parameters") as YAMLMap;
        const parameters = new YAMLMap();
        if (old.flow) parameters.flow = true;
        takeComment(old, parameters);
        this.#move(old, moves, parameters);
        if (noTokenLimit) this.#set(parameters, "maxPrefixTokensToMatch", 0);
        if (old.items.length === 0) scorer.delete("parameters");
        list.items.push(entryOf({ type: PREFIX_PRODUCER }, parameters));
      }
    }
    if (plan.decider !== undefined && isSeq(list)) this.#decider(plan.decider, list);
    if (plan.detector !== undefined) this.#thresholds(plan.detector.name);
  }

  /** Names the decider in a handler that decided by its own threshold, and removes those parameters. */
  #decider({ at, keys, decider, isNew }: DeciderPlan, list: YAMLSeq): void {
    const handler = list.items[at] as YAMLMap;
    const given = handler.get("parameters");
    const parameters = isMap(given) ? (given as YAMLMap) : new YAMLMap();
    for (const key of keys) parameters.delete(key);
    if (decider !== undefined) this.#set(parameters, DECIDER, decider.name);
    if (parameters.items.length === 0) handler.delete("parameters");
    else handler.set("parameters", parameters);
    this.#changed = true;
    if (decider === undefined || !isNew) return;
    const { name, type, nonCachedTokens } = decider;
    const own = new YAMLMap();
    if (nonCachedTokens > 0) own.set("nonCachedTokens", nonCachedTokens);
    list.items.push(entryOf(name === type ? { type } : { name, type }, own));
  }

  /** Moves thresholds from the section into an entry of their own, and refers to that entry. */
  #thresholds(name: string): void {
    const old = this.#top.get("saturationDetector") as YAMLMap;
    const parameters = new YAMLMap();
    takeComment(old, parameters);
    parameters.items = old.items.filter(({ key }) => keyOf(key) !== "pluginRef");
    old.items = [];
    this.#set(old, "pluginRef", name);
    const entry = entryOf(name === DETECTOR ? { type: DETECTOR } : { name, type: DETECTOR }, parameters);
    const list = pair(this.#top, "plugins")?.value;
    if (isSeq(list)) list.items.push(entry);
    else {
      const plugins = new YAMLSeq();
      plugins.items.push(entry);
      this.#set(this.#top, "plugins", plugins);
    }
  }

  #detector(): void {
    const old = pair(this.#top, "saturationDetector");
    if (old === undefined) return;
    this.#changed = true;
    const section = pair(this.#top, "flowControl")?.value;
    const hasCurrent = Boolean(this.#loaded.envelope.flowControl?.saturationDetector);
    if (isMap(section)) {
      if (!hasCurrent && isMap(old.value)) this.#set(section as YAMLMap, "saturationDetector", old.value);
      this.#top.delete("saturationDetector");
    } else if (isMap(old.value)) {
      // An empty section with that name would be a duplicate.
      this.#top.delete("flowControl");
      this.#wrap(old, "flowControl", "saturationDetector", old.value);
    } else this.#top.delete("saturationDetector");
  }

  #parsers(): void {
    const old = pair(this.#top, "parser");
    if (old === undefined) return;
    this.#changed = true;
    const isReference = isMap(old.value);
    const section = pair(this.#top, "requestHandler")?.value;
    const hasCurrent = (this.#loaded.envelope.requestHandler?.parsers ?? []).length > 0;
    if (!isReference || hasCurrent) {
      this.#top.delete("parser");
      return;
    }
    const parsers = new YAMLSeq();
    parsers.items.push(old.value);
    if (isMap(section)) {
      this.#set(section as YAMLMap, "parsers", parsers);
      this.#top.delete("parser");
    } else {
      this.#top.delete("requestHandler");
      this.#wrap(old, "requestHandler", "parsers", parsers);
    }
  }

  /** Gives a pair another key and puts its value one level deeper; comments above it stay. */
  #wrap(old: Pair, section: string, key: string, value: unknown): void {
    (old.key as Scalar).value = section;
    const inner = new YAMLMap();
    inner.set(new Scalar(key), value);
    old.value = inner;
    this.#changed = true;
  }

  #set(map: YAMLMap, key: string, value: unknown): void {
    // The name is the first key of an entry.
    if (key === "name" && !map.has(key)) map.items.unshift(plainPair(key, value));
    else map.set(key, value);
    this.#changed = true;
  }

  #move(from: YAMLMap, moves: readonly PluginMove[], into: YAMLMap): void {
    this.#changed = true;
    // Deletes come first: a deleted key may have the name of a moved one.
    for (const { key, to } of moves) if (to === undefined) from.delete(key);
    for (const { key, to, value } of moves) {
      if (to === undefined) continue;
      const found = pair(from, key)!;
      if (from !== into) {
        from.delete(key);
        into.items.push(found as Pair<Scalar, Scalar>);
      }
      (found.key as Scalar).value = to;
      if (isScalar(found.value)) found.value.value = value;
    }
  }
}

/** The library gives the comment above the first key to the mapping itself. This function moves it. */
function takeComment(from: YAMLMap, into: YAMLMap): void {
  if (from.commentBefore) into.commentBefore = from.commentBefore;
  from.commentBefore = null;
}

function pair(map: YAMLMap, key: string): Pair | undefined {
  return map.items.find((item) => keyOf(item.key) === key);
}

function keyOf(key: unknown): unknown {
  return isScalar(key) && !isAlias(key) ? key.value : key;
}

function plainPair(key: string, value: unknown): Pair {
  const map = new YAMLMap();
  map.set(new Scalar(key), new Scalar(value));
  return map.items[0]!;
}

function entryOf(fields: Readonly<Record<string, string>>, parameters: YAMLMap): YAMLMap {
  const entry = new YAMLMap();
  for (const [key, value] of Object.entries(fields)) entry.set(new Scalar(key), new Scalar(value));
  if (parameters.items.length > 0) entry.set(new Scalar("parameters"), parameters);
  return entry;
}
