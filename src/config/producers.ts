import type { Violation } from "../document/validate.ts";
import type { PluginRegistry } from "../plugin/registry.ts";
import type { ConfiguredPlugin } from "./effective.ts";
import { defaultPlugin, type PluginTable } from "./plugins.ts";

/**
 * Checks that every column that is read is written by a configured producer or by one that can be made with its defaults, and
 * that no producer waits for itself (scheduling 3.4).
 * @param members what the profile names
 * @param companions what members bring along
 * @param into receives what is wrong, at the entry of the plugin concerned
 */
export function checkProducers(
  members: readonly ConfiguredPlugin[],
  table: PluginTable,
  companions: readonly ConfiguredPlugin[],
  registry: PluginRegistry,
  into: Violation[],
): void {
  const producers: ConfiguredPlugin[] = [...table.values(), ...companions].filter(
    ({ definition }) => definition.kind === "producer",
  );
  const place = (name: string) => table.get(name)?.path ?? [];
  // The list grows while it is read: what is made may require more.
  const readers = [...members, ...producers];
  for (const { name, definition } of readers)
    for (const key of definition.requires) {
      if (producers.some((producer) => producer.definition.produces.includes(key))) continue;
      const made = registry.defaultProducer(key);
      if (made === undefined)
        into.push({ path: place(name), problem: `no producer for key ${key.name} required by plugin ${name}` });
      else {
        const producer = defaultPlugin(made);
        producers.push(producer);
        readers.push(producer);
      }
    }
  const cycle = findCycle(producers);
  if (cycle === undefined) return;
  const names = [...cycle, cycle[0]!].map(({ name }) => name).join(" -> ");
  const at = cycle.find(({ name }) => table.has(name));
  const problem = `dependency cycle among producers, each reads what the next one writes: ${names}`;
  into.push({ path: place(at?.name ?? ""), problem });
}

/** Producers of which each reads a column of the next and the last one of the first; undefined when there are none. */
function findCycle(producers: readonly ConfiguredPlugin[]): readonly ConfiguredPlugin[] | undefined {
  const done = new Set<ConfiguredPlugin>();
  const open: ConfiguredPlugin[] = [];
  const visit = (producer: ConfiguredPlugin): readonly ConfiguredPlugin[] | undefined => {
    if (done.has(producer)) return undefined;
    const at = open.indexOf(producer);
    if (at >= 0) return open.slice(at);
    open.push(producer);
    const { requires, optional = [] } = producer.definition;
    for (const key of [...requires, ...optional]) {
      const writer = producers.find(({ definition }) => definition.produces.includes(key));
      const cycle = writer && visit(writer);
      if (cycle !== undefined) return cycle;
    }
    open.pop();
    done.add(producer);
    return undefined;
  };
  for (const producer of producers) {
    const cycle = visit(producer);
    if (cycle !== undefined) return cycle;
  }
  return undefined;
}
