import type { Violation } from "../../base/document/validate.ts";
import { companionName, writerFor } from "../../base/plugin/bindings.ts";
import type { DataKey } from "../../base/plugin/keys.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import type { ConfiguredPlugin } from "./effective.ts";
import { defaultPlugin, isOfKind, type PluginTable } from "./plugins.ts";
import { currentType } from "./published.ts";
import { cycleAmong } from "./references.ts";

type ConfiguredProducer = ConfiguredPlugin<"producer">;

/** The producer from which a plugin reads a key. */
export interface Binding {
  readonly reader: ConfiguredPlugin;
  readonly key: DataKey;
  readonly producer: ConfiguredProducer;
}

/**
 * Finds the producer for each key that a plugin reads. Checks that each key has a configured producer or a default one, and
 * that no producer waits for itself (scheduling 3.4).
 * @param readers all plugins that take part in decisions, except producers
 * @param companions the plugins that members of profiles need
 * @param into receives the violations, at the entry of the plugin
 */
export function bindProducers(
  readers: readonly ConfiguredPlugin[],
  table: PluginTable,
  companions: readonly ConfiguredPlugin[],
  registry: PluginRegistry,
  into: Violation[],
): readonly Binding[] {
  const producers = [...table.values(), ...companions].filter(isOfKind("producer")) as ConfiguredProducer[];
  const place = (name: string) => table.get(name)?.path ?? [];
  // The loop extends the list that it reads: an added producer may require further ones.
  const all: ConfiguredPlugin[] = [...readers, ...producers];
  const refused = new Set<string>();
  for (const reader of all)
    for (const key of reader.definition.requires) {
      if (writerFor(key, reader, producers) !== undefined) continue;
      const definition = registry.defaultProducer(key);
      const problem = `no producer for key ${key.name} required by plugin ${reader.name}`;
      if (definition === undefined) {
        if (!refused.has(problem)) into.push({ path: place(reader.name), problem });
        refused.add(problem);
        continue;
      }
      const made = defaultPlugin(definition);
      producers.push(made);
      all.push(made);
      const other = table.get(made.name);
      if (other !== undefined)
        into.push({
          path: other.path,
          problem: `the name ${made.name} belongs to the producer that Sluice creates for ${reader.name}; give this ${other.definition.kind} another name`,
        });
    }
  const bindings = all.flatMap((reader) =>
    [...reader.definition.requires, ...(reader.definition.optional ?? [])].flatMap((key) => {
      const producer = writerFor(key, reader, producers);
      return producer === undefined ? [] : [{ reader, key, producer }];
    }),
  );
  const cycle = cycleAmong(producers, (reader) =>
    bindings.filter((binding) => binding.reader === reader).map(({ producer }) => producer),
  );
  if (cycle !== undefined) {
    const names = [...cycle, cycle[0]!].map(({ name }) => name).join(" -> ");
    const at = cycle.find(({ name }) => table.has(name));
    const problem = `dependency cycle among producers: each reads data of the next producer: ${names}`;
    into.push({ path: place(at?.name ?? ""), problem });
  }
  return bindings;
}

/**
 * Checks that plugins which work together read each key from the same producer.
 * @param together the profile handler and the plugins it works with
 * @param into receives the first pair that differs
 */
export function checkShared(
  together: readonly ConfiguredPlugin[],
  bindings: readonly Binding[],
  table: PluginTable,
  into: Violation[],
): void {
  const shared = bindings.filter(({ reader }) => together.some(({ name }) => name === reader.name));
  for (const { reader, key, producer } of shared) {
    const other = shared.find((one) => one.key === key && one.producer !== producer);
    if (other === undefined) continue;
    const problem = `${reader.name} reads ${key.name} of ${producer.name}, but ${other.reader.name} of the same profile handler reads ${key.name} of ${other.producer.name}; name the same producer in both plugins`;
    into.push({ path: table.get(reader.name)?.path ?? [], problem });
    return;
  }
}

/**
 * Returns configured producers without a reader, where another producer serves the readers of their keys: a reader lacks the
 * parameter that chooses among them.
 */
export function passedOver(
  bindings: readonly Binding[],
  table: PluginTable,
): readonly { readonly name: string; readonly instead: Binding }[] {
  return [...table.values()].filter(isOfKind("producer")).flatMap(({ name, definition }) => {
    if (bindings.some(({ producer }) => producer.name === name)) return [];
    const instead = bindings.find(({ key }) => definition.produces.includes(key));
    return instead === undefined ? [] : [{ name, instead }];
  });
}

/** A plugin that another plugin needs and adds. */
export interface Companion {
  readonly plugin: ConfiguredPlugin;
  /** Instance name of the plugin that needs it. */
  readonly by: string;
}

/**
 * Returns the companions of the handler and of the members of profiles. Members with equal parameters share one; other
 * parameters get one of their own. A configured plugin of the type, under any of its names, replaces them.
 */
export function companionsOf(members: readonly ConfiguredPlugin[], table: PluginTable): readonly Companion[] {
  const configured = new Set([...table.values()].map(({ definition }) => currentType(definition.type)));
  const made: Companion[] = [];
  for (const member of members) {
    // Wrong parameters are already reported.
    if (member.parameters === undefined) continue;
    for (const { definition, parameters } of member.definition.companions?.(member.parameters) ?? []) {
      const { type } = definition;
      if (configured.has(currentType(type))) continue;
      const parsed: unknown = definition.parameters.parse(parameters);
      const ofType = made.filter(({ plugin }) => plugin.definition.type === type);
      if (ofType.some((companion) => serves(companion, member.name, parsed))) continue;
      const name = ofType.length === 0 ? type : companionName(type, member.name);
      made.push({ plugin: { definition, name, parameters: parsed }, by: member.name });
    }
  }
  return made;
}

/** Refuses plugins of the file that have the name of a companion: of two plugins with one name, one would be lost. */
export function checkCompanions(companions: readonly Companion[], table: PluginTable, into: Violation[]): void {
  for (const { plugin, by } of companions) {
    const other = table.get(plugin.name);
    if (other === undefined) continue;
    const problem = `the name ${plugin.name} belongs to the ${plugin.definition.kind} that Sluice adds with ${by}; give this ${other.definition.kind} another name`;
    into.push({ path: other.path, problem });
  }
}

/**
 * Whether a companion is the one that a member needs. A producer with another name than its type belongs to the member that
 * added it.
 */
function serves({ plugin, by }: Companion, member: string, parameters: unknown): boolean {
  const { definition, name } = plugin;
  if (definition.kind === "producer" && name !== definition.type && by !== member) return false;
  return JSON.stringify(plugin.parameters) === JSON.stringify(parameters);
}
