import type { z } from "zod";
import type { Path } from "../document/document.ts";
import { didYouMean } from "../document/nearest.ts";
import { check, type Violation } from "../document/validate.ts";
import type { ColumnKey } from "../plugin/keys.ts";
import type { PluginDefinition, PluginKind } from "../plugin/kinds.ts";
import type { PluginRegistry } from "../plugin/registry.ts";
import type { ConfiguredPlugin } from "./effective.ts";
import type { PluginEntry } from "./migrate.ts";

/** The configured plugins by instance name, in the order of the file, each with its place there. */
export type PluginTable = Map<string, ConfiguredPlugin & { readonly path: Path; readonly entry: PluginEntry }>;

/** Parameters that name another plugin (scheduling 3.4, 4.3). */
const REFERENCE = /(PluginRef|ProducerName)$/;

/**
 * Reads the entries of `plugins`: names, duplicates, parameters, references between plugins.
 * @param into receives what is wrong; a plugin with wrong parameters stays in the table, so that references to it hold
 */
export function readPlugins(entries: readonly PluginEntry[], registry: PluginRegistry, into: Violation[]): PluginTable {
  const table: PluginTable = new Map();
  for (const entry of entries) {
    const { path } = entry;
    const name = entry.name || entry.type;
    // The envelope's schema let registered types through only.
    const definition = registry.get(entry.type)!;
    if (table.has(name)) {
      const hint = entry.name ? "" : "; give one of them a `name` of its own";
      into.push({ path, problem: `duplicate plugin name ${name}${hint}` });
      continue;
    }
    const wrong: Violation[] = [];
    const parsed = check(entry.parameters ?? {}, strictly(definition.parameters), [...path, "parameters"], wrong);
    for (const { path: place, problem } of wrong)
      into.push({
        path: whereItStands(entry, place),
        problem: `failed to create plugin ${name} (type: ${entry.type}): ${problem}`,
      });
    table.set(name, { definition, name, parameters: parsed?.output, path, entry });
  }
  checkColumns(table, into);
  for (const plugin of table.values()) checkReferences(plugin, table, registry, into);
  return table;
}

/** The place in the file of a part of an entry's parameters, which may have been moved there. */
function whereItStands({ path, origins }: PluginEntry, place: Path): Path {
  const key = path.length + 1;
  const origin = origins?.get(String(place[key]));
  return origin === undefined ? place : [...origin.path, ...place.slice(key + 1)];
}

/** A plugin as it is when nothing configures it. */
export function defaultPlugin<K extends PluginKind>(definition: PluginDefinition<K>): ConfiguredPlugin<K> {
  return { definition, name: definition.type, parameters: definition.parameters.parse({}) };
}

/** Two producers of one column can't both be read: which one wins would be chance. */
function checkColumns(table: PluginTable, into: Violation[]): void {
  const writers = new Map<ColumnKey, string>();
  for (const { name, definition, path } of table.values())
    for (const key of definition.produces) {
      const other = writers.get(key);
      if (other !== undefined) {
        const problem = `the producers ${other} and ${name} both write ${key.name}; several instances are not supported yet`;
        into.push({ path, problem });
        break;
      }
      writers.set(key, name);
    }
}

function checkReferences(
  plugin: ConfiguredPlugin & { readonly path: Path },
  table: PluginTable,
  registry: PluginRegistry,
  into: Violation[],
): void {
  if (typeof plugin.parameters !== "object" || plugin.parameters === null) return;
  for (const [key, value] of Object.entries(plugin.parameters)) {
    if (!REFERENCE.test(key) || typeof value !== "string" || value === "") continue;
    const isProducer = key.endsWith("ProducerName");
    const found = table.get(value);
    if (found !== undefined && (!isProducer || found.definition.kind === "producer")) continue;
    if (found === undefined && willBeMade(value, table, registry)) continue;
    const path = [...plugin.path, "parameters", key];
    const problem =
      found === undefined
        ? `plugin ${plugin.name} has a dependency on the unregistered plugin ${value}${didYouMean(value, table.keys())}`
        : `plugin ${plugin.name} takes a producer here, but ${value} is a ${found.definition.kind}`;
    into.push({ path, problem });
  }
}

/** Whether `name` is what a producer goes by that is made with its defaults since nothing configured does its work. */
function willBeMade(name: string, table: PluginTable, registry: PluginRegistry): boolean {
  const definition = registry.get(name);
  if (definition?.kind !== "producer") return false;
  return ![...table.values()].some((plugin) =>
    plugin.definition.produces.some((key) => definition.produces.includes(key)),
  );
}

/** Unknown parameters are refused also where a plugin's author wrote a plain `z.object`. */
function strictly(schema: z.ZodType): z.ZodType {
  const object = schema as z.ZodObject;
  return object.def.type === "object" && object.def.catchall === undefined ? object.strict() : schema;
}
