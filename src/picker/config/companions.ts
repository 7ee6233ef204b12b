import type { Violation } from "../../base/document/validate.ts";
import { companionName } from "../../base/plugin/bindings.ts";
import type { ConfiguredPlugin } from "./effective.ts";
import type { PluginTable } from "./plugins.ts";
import { currentType } from "./published.ts";

/** A plugin that comes along with another one. */
export interface Companion {
  readonly plugin: ConfiguredPlugin;
  /** Instance name of the other one. */
  readonly by: string;
}

/**
 * The plugins that members of profiles and the handler bring along. Those that want the same one share it; what wants other
 * parameters gets one of its own. A configured plugin of the type, by whatever name of it, takes their place.
 */
export function companionsOf(members: readonly ConfiguredPlugin[], table: PluginTable): readonly Companion[] {
  const configured = new Set([...table.values()].map(({ definition }) => currentType(definition.type)));
  const made: Companion[] = [];
  for (const member of members) {
    // Wrong parameters have been reported already.
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

/** Refuses plugins of the file that have the name of one that comes along with another: of two of a name one would get lost. */
export function checkCompanions(companions: readonly Companion[], table: PluginTable, into: Violation[]): void {
  for (const { plugin, by } of companions) {
    const other = table.get(plugin.name);
    if (other === undefined) continue;
    const problem = `the name ${plugin.name} is that of the ${plugin.definition.kind} that comes along with ${by}; give this ${other.definition.kind} another one`;
    into.push({ path: other.path, problem });
  }
}

/** Whether a companion is what a member wants. A producer is found by its name: by its type, or by that of the one reader. */
function serves({ plugin, by }: Companion, member: string, parameters: unknown): boolean {
  const { definition, name } = plugin;
  if (definition.kind === "producer" && name !== definition.type && by !== member) return false;
  return JSON.stringify(plugin.parameters) === JSON.stringify(parameters);
}
