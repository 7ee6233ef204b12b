import type { Violation } from "../document/validate.ts";
import type { ConfiguredPlugin, ProfilePlugin } from "./effective.ts";
import type { PluginTable } from "./plugins.ts";

/**
 * The plugins that members of the profile bring along, one of each type: a configured plugin of that type takes its place.
 * @param into receives members that want the same one with different parameters
 */
export function companionsOf(
  members: readonly ProfilePlugin[],
  table: PluginTable,
  into: Violation[],
): readonly ConfiguredPlugin[] {
  const configured = new Set([...table.values()].map(({ definition }) => definition.type));
  const made = new Map<string, { readonly plugin: ConfiguredPlugin; readonly by: string }>();
  for (const member of members) {
    // Wrong parameters have been reported already.
    if (member.parameters === undefined) continue;
    for (const { definition, parameters } of member.definition.companions?.(member.parameters) ?? []) {
      const { type } = definition;
      if (configured.has(type)) continue;
      const plugin = { definition, name: type, parameters: definition.parameters.parse(parameters) };
      const other = made.get(type);
      if (other === undefined) made.set(type, { plugin, by: member.name });
      else if (JSON.stringify(other.plugin.parameters) !== JSON.stringify(plugin.parameters))
        into.push({
          path: table.get(member.name)?.path ?? [],
          problem: `the plugins ${other.by} and ${member.name} share what they know, so their parameters must agree`,
        });
    }
  }
  return [...made.values()].map(({ plugin }) => plugin);
}
