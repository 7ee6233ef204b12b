import { formatPath, type Path } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import type { Violation } from "../../base/document/validate.ts";
import { PRODUCER_NAME } from "../../base/plugin/bindings.ts";
import type { PluginReference } from "../../base/plugin/kinds.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import type { ConfiguredPlugin } from "./effective.ts";
import { type PluginTable, type TableEntry, whereItStands } from "./plugins.ts";

/** Parameters that name another plugin of any kind (scheduling 4.3). */
const PLUGIN_REF = /PluginRef$/;

/**
 * Checks the parameters that name other plugins: those that a definition declares, and those whose key ends in `PluginRef` or
 * `ProducerName` (scheduling 3.4, 4.3).
 * @param into receives names that no plugin has, plugins of the wrong kind, and plugins that refer to each other in a circle
 * @returns instance names that something refers to
 */
export function checkReferences(table: PluginTable, registry: PluginRegistry, into: Violation[]): ReadonlySet<string> {
  const named = new Set<string>();
  for (const plugin of table.values())
    for (const reference of referencesOf(plugin)) {
      const found = table.get(reference.name);
      named.add(reference.name);
      const problem = found === undefined ? missing(plugin, reference) : unfit(plugin, reference, found);
      if (problem !== undefined)
        into.push({ path: whereItStands(plugin.entry, [...plugin.path, "parameters", ...reference.path]), problem });
    }
  const cycle = findCycle(table);
  if (cycle !== undefined) {
    const names = [...cycle, cycle[0]!].map(({ name }) => name).join(" -> ");
    into.push({ path: cycle[0]!.path, problem: `dependency cycle: each plugin names the next one: ${names}` });
  }
  return named;

  function missing({ name }: TableEntry, { name: wanted, kind }: Reference): string | undefined {
    if (kind === "producer" && willBeMade(wanted, table, registry)) return undefined;
    const problem = `plugin ${name} has a dependency on the unregistered plugin ${wanted}`;
    const hint = didYouMean(wanted, table.keys());
    if (hint !== "") return problem + hint;
    const entry = registry.get(wanted) === undefined ? "" : `; add \`- type: ${wanted}\` to plugins`;
    return problem + (entry || (kind === undefined ? "" : `; add a ${kind} of this name to plugins`));
  }
}

/** One parameter that names a plugin; `kind` undefined = of any kind. */
type Reference = Omit<PluginReference, "kind"> & { readonly kind: PluginReference["kind"] | undefined };

function referencesOf({ definition, parameters }: TableEntry): Reference[] {
  // Wrong parameters are already reported.
  if (typeof parameters !== "object" || parameters === null) return [];
  const found: Reference[] = [...(definition.references?.(parameters) ?? [])];
  const told = new Set(found.map(({ path }) => formatPath(path)));
  for (const [key, value] of Object.entries(parameters)) {
    if (typeof value !== "string" || value === "" || told.has(formatPath([key]))) continue;
    if (PRODUCER_NAME.test(key)) found.push({ path: [key], name: value, kind: "producer" });
    else if (PLUGIN_REF.test(key)) found.push({ path: [key], name: value, kind: undefined });
  }
  return found;
}

function unfit({ name, definition }: TableEntry, { path, kind }: Reference, found: TableEntry): string | undefined {
  const is = found.definition.kind;
  if (kind !== undefined && is !== kind) return `plugin ${name} takes a ${kind} here, but ${found.name} is a ${is}`;
  if (!isProducerName(path)) return undefined;
  const reads = [...definition.requires, ...(definition.optional ?? [])];
  if (reads.length === 0 || reads.some((key) => found.definition.produces.includes(key))) return undefined;
  const keys = reads.map((key) => key.name).join(", ");
  return `plugin ${name} reads ${keys}, but the producer ${found.name} does not write this data; name a producer that does`;
}

function isProducerName(path: Path): boolean {
  return PRODUCER_NAME.test(String(path.at(-1)));
}

/** Whether `name` is the name of a default producer that will be added, because no configured one does its work. */
function willBeMade(name: string, table: PluginTable, registry: PluginRegistry): boolean {
  const definition = registry.get(name);
  if (definition?.kind !== "producer" || !definition.parameters.safeParse({}).success) return false;
  return ![...table.values()].some((plugin) =>
    plugin.definition.produces.some((key) => definition.produces.includes(key)),
  );
}

/** Returns the plugins that a plugin refers to, directly or through others. */
export function referredBy(plugin: ConfiguredPlugin, table: PluginTable): readonly TableEntry[] {
  const found: TableEntry[] = [];
  const visit = ({ definition, parameters }: ConfiguredPlugin): void => {
    // Wrong parameters are already reported.
    if (parameters === undefined) return;
    for (const { name, kind } of definition.references?.(parameters) ?? []) {
      const other = table.get(name);
      if (other?.definition.kind !== kind || found.includes(other)) continue;
      found.push(other);
      visit(other);
    }
  };
  visit(plugin);
  return found;
}

/** Returns a cycle of plugins, in which each names the next and the last one the first; undefined when there is none. */
function findCycle(table: PluginTable): readonly TableEntry[] | undefined {
  return cycleAmong([...table.values()], ({ definition, parameters }) =>
    parameters === undefined
      ? []
      : (definition.references?.(parameters) ?? []).flatMap(({ name }) => table.get(name) ?? []),
  );
}

/**
 * Returns a cycle of things, in which each leads to the next and the last one to the first; undefined when there is none.
 * @param next returns the things that one leads to
 */
export function cycleAmong<T>(things: readonly T[], next: (thing: T) => readonly T[]): readonly T[] | undefined {
  const done = new Set<T>();
  const open: T[] = [];
  const visit = (thing: T): readonly T[] | undefined => {
    if (done.has(thing)) return undefined;
    const at = open.indexOf(thing);
    if (at >= 0) return open.slice(at);
    open.push(thing);
    for (const other of next(thing)) {
      const cycle = visit(other);
      if (cycle !== undefined) return cycle;
    }
    open.pop();
    done.add(thing);
    return undefined;
  };
  for (const thing of things) {
    const cycle = visit(thing);
    if (cycle !== undefined) return cycle;
  }
  return undefined;
}
