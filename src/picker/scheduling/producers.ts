import { SluiceError } from "../../base/inference/errors.ts";
import { writerFor } from "../../base/plugin/bindings.ts";
import type { PluginDescription } from "../../base/plugin/instances.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";

type ProducerDescription = PluginDescription<"producer">;

/**
 * Returns the configured producers, then a default producer for each required key that no producer writes.
 * @throws SluiceError PRODUCER_MISSING
 */
export function withDefaultProducers(
  readers: readonly PluginDescription[],
  configured: readonly ProducerDescription[],
  registry: PluginRegistry,
): ProducerDescription[] {
  const producers = [...configured];
  // The loop extends the list that it reads: an added producer may require further ones.
  const all: PluginDescription[] = [...readers, ...producers];
  for (const plugin of all)
    for (const key of plugin.definition.requires) {
      if (writerFor(key, plugin, producers) !== undefined) continue;
      const definition = registry.defaultProducer(key);
      if (definition === undefined)
        throw new SluiceError("PRODUCER_MISSING", `no producer for key ${key.name} required by plugin ${plugin.name}`);
      const made = { definition, name: definition.type, parameters: definition.parameters.parse({}) };
      producers.push(made);
      all.push(made);
    }
  return producers;
}

/**
 * Returns the producers, each after those whose data it reads; otherwise in the given order.
 * @throws SluiceError PLUGIN_CYCLE
 */
export function inOrder(producers: readonly ProducerDescription[]): ProducerDescription[] {
  const done: ProducerDescription[] = [];
  const open = new Set<ProducerDescription>();
  const visit = (producer: ProducerDescription): void => {
    if (done.includes(producer)) return;
    if (open.has(producer)) {
      const path = [...open].slice([...open].indexOf(producer));
      const names = [...path, producer].map(({ name }) => name).join(" -> ");
      throw new SluiceError("PLUGIN_CYCLE", `dependency cycle among producers: ${names}`);
    }
    open.add(producer);
    for (const key of [...producer.definition.requires, ...(producer.definition.optional ?? [])]) {
      const writer = writerFor(key, producer, producers);
      if (writer !== undefined) visit(writer);
    }
    open.delete(producer);
    done.push(producer);
  };
  for (const producer of producers) visit(producer);
  return done;
}
