import type { Path } from "../document/document.ts";
import { didYouMean } from "../document/nearest.ts";
import type { Violation } from "../document/validate.ts";
import type { PluginDefinition, PluginKind } from "../plugin/kinds.ts";
import type { ProfileKind, ProfilePlugin } from "./effective.ts";
import type { Envelope } from "./envelope.ts";
import type { PluginTable } from "./plugins.ts";

type ProfileEntry = NonNullable<Envelope["schedulingProfiles"]>[number];

/** What a scorer weighs when the file doesn't say (scheduling 4.3). */
const DEFAULT_WEIGHT = 1;

/** Kinds that the reference lets stand in a profile, where they do nothing. */
const HARMLESS: Readonly<Partial<Record<PluginKind, string>>> = {
  parser: "name it in requestHandler.parsers",
  "request-hook": "a hook works by being configured",
};

/**
 * The members that one entry of `schedulingProfiles` names, in its order; without a picker when it names none.
 * @param at place of the entry in the document
 * @param into receives what is wrong
 * @param warn receives what is without effect: parsers and hooks stand in profiles of published configurations
 */
export function readProfile(
  entry: ProfileEntry,
  at: Path,
  table: PluginTable,
  into: Violation[],
  warn: (path: Path, text: string) => void,
): ProfilePlugin[] {
  const where = `schedulingProfiles[${entry.name}]`;
  const members: ProfilePlugin[] = [];
  (entry.plugins ?? []).forEach(({ pluginRef, weight }, index) => {
    const path = [...at, "plugins", index, "pluginRef"];
    const plugin = table.get(pluginRef);
    if (plugin === undefined) {
      const problem = `${where} references undefined plugin ${pluginRef}${didYouMean(pluginRef, table.keys())}`;
      into.push({ path, problem });
      return;
    }
    const { name, parameters } = plugin;
    const definition = inProfile(plugin.definition);
    const remedy = HARMLESS[definition.kind];
    if (remedy !== undefined) {
      warn(path, `${where} lists ${name}, which has no effect here: ${remedy}`);
      return;
    }
    if (!isMember(definition.kind)) {
      const problem = `${where} references ${name}, which is a ${definition.kind}; a profile takes filters, scorers and one picker`;
      into.push({ path, problem });
      return;
    }
    if (members.some((member) => member.name === name))
      into.push({ path, problem: `${where} lists ${name} twice; keep one and give it the weight meant` });
    else if (definition.kind === "picker" && members.some((member) => member.definition.kind === "picker"))
      into.push({ path, problem: `${where} already has a registered picker plugin; keep one of them` });
    members.push({
      definition: definition as ProfilePlugin["definition"],
      name,
      parameters,
      weight: weight ?? DEFAULT_WEIGHT,
    });
  });
  return members;
}

/** Every configured filter, scorer and picker: the profile of a file that has plugins and no profiles (scheduling 4.3). */
export function profileOfAll(table: PluginTable, into: Violation[]): ProfilePlugin[] {
  const plugins = [...table.values()]
    .filter(({ definition }) => isMember(inProfile(definition).kind))
    .map(({ name }) => ({ pluginRef: name }));
  return readProfile({ name: "default", plugins }, ["plugins"], table, into, () => {});
}

/** What a plugin is in a profile: where its own kind has no place there, the filter that it is besides, if it is one. */
function inProfile(definition: PluginDefinition): PluginDefinition {
  return isMember(definition.kind) ? definition : (definition.inProfile ?? definition);
}

/** Whether plugins of a kind stand in profiles. */
export function isMember(kind: string): kind is ProfileKind {
  return kind === "filter" || kind === "scorer" || kind === "picker";
}
