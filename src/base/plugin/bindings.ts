import type { PluginDescription } from "./instances.ts";
import type { DataKey } from "./keys.ts";

/** Parameters by which a plugin says which of several producers it reads (scheduling 3.4). */
export const PRODUCER_NAME = /(ProducerName|^producerName)$/;

/**
 * The producer from which a plugin reads a key. The first rule that names a writer of the key decides:
 * 1. the producer that a parameter ending in `ProducerName` names
 * 2. the producer that came along with the plugin
 * 3. the writer that goes by its type
 * 4. the first writer
 * A producer that is read only by name is no writer for others.
 * @param producers in the order of the file, then companions and producers made with their defaults
 * @returns undefined when none of them writes the key: a default producer must be made, or none exists
 */
export function writerFor<P extends PluginDescription>(
  key: DataKey,
  { name: reader, parameters }: PluginDescription,
  producers: readonly P[],
): P | undefined {
  const all = producers.filter(({ definition }) => definition.produces.includes(key));
  const named = all.length > 1 || all[0]?.definition.onlyByName === true ? producerNames(parameters) : [];
  const writers = all.filter(({ name, definition }) => definition.onlyByName !== true || named.includes(name));
  return (
    writers.find(({ name }) => named.includes(name)) ??
    writers.find(({ name, definition }) => name === companionName(definition.type, reader)) ??
    writers.find(({ name, definition }) => name === definition.type) ??
    writers[0]
  );
}

/**
 * Instance name of a producer that comes along with one plugin and that no other plugin reads. The first of a type has the type
 * as its name.
 */
export function companionName(type: string, reader: string): string {
  return `${type}-of-${reader}`;
}

function producerNames(parameters: unknown): readonly unknown[] {
  if (typeof parameters !== "object" || parameters === null) return [];
  return Object.entries(parameters).flatMap(([key, value]) => (PRODUCER_NAME.test(key) ? [value] : []));
}
