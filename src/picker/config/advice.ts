import type { Path } from "../../base/document/document.ts";
import type { PluginEntry } from "./migrate-decider.ts";
import type { PluginTable } from "./plugins.ts";

/**
 * What the author of a file should know of plugins that load: deprecated types, once each; numbers out of range that count as
 * others; the plugins' own notes.
 * @param warn told each, with its place in the file
 */
export function advise(
  entries: readonly PluginEntry[],
  table: PluginTable,
  warn: (path: Path, text: string) => void,
): void {
  const deprecated = new Set<string>();
  for (const entry of entries) {
    const plugin = table.get(entry.name || entry.type);
    if (plugin === undefined) continue;
    const { definition, name, parameters } = plugin;
    if (definition.deprecated !== undefined && !deprecated.has(definition.type)) {
      deprecated.add(definition.type);
      warn(entry.path, `plugin type ${definition.type} is deprecated; ${definition.deprecated}`);
    }
    // Wrong parameters have been reported already.
    if (typeof parameters !== "object" || parameters === null) continue;
    for (const [key, given] of Object.entries(entry.parameters ?? {})) {
      const taken = (parameters as Readonly<Record<string, unknown>>)[key];
      if (typeof given === "number" && typeof taken === "number" && given !== taken)
        warn(
          [...entry.path, "parameters", key],
          `${key} ${given} of plugin ${name} is out of range and counts as ${taken}`,
        );
    }
    for (const note of definition.notes?.(parameters) ?? [])
      warn([...entry.path, "parameters"], `plugin ${name}: ${note}`);
  }
}
