import type { PluginDescription } from "./instances.ts";
import type { DataKey } from "./keys.ts";

/** Parameters by which a plugin says which of several producers it reads (scheduling 3.4). */
export const PRODUCER_NAME = /ProducerName$/;

/**
 * The producer from which a plugin reads a key: the one that a parameter ending in `ProducerName` names, if it writes the
 * key; else the one that came along with the plugin; else the writer that goes by its type; else the first writer.
 * @param producers in the order of the file, companions and those made with their defaults after it
 * @returns undefined when none of them writes the key: a default producer is to be made, or there is none
 */
export function writerFor<P extends PluginDescription>(
  key: DataKey,
  { name: reader, parameters }: PluginDescription,
  producers: readonly P[],
): P | undefined {
  const writers = producers.filter(({ definition }) => definition.produces.includes(key));
  const named = writers.length > 1 ? producerNames(parameters) : [];
  return (
    writers.find(({ name }) => named.includes(name)) ??
    writers.find(({ name, definition }) => name === companionName(definition.type, reader)) ??
    writers.find(({ name, definition }) => name === definition.type) ??
    writers[0]
  );
}

/** Instance name of a producer that comes along with one plugin and that no other reads: the first of a type goes by that. */
export function companionName(type: string, reader: string): string {
  return `${type}-of-${reader}`;
}

function producerNames(parameters: unknown): readonly unknown[] {
  if (typeof parameters !== "object" || parameters === null) return [];
  return Object.entries(parameters).flatMap(([key, value]) => (PRODUCER_NAME.test(key) ? [value] : []));
}
