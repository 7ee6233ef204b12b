import type { Path } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { PluginDefinition, PluginKind } from "../../base/plugin/kinds.ts";
import type { ProfileKind, ProfilePlugin } from "./effective.ts";
import type { Envelope } from "./envelope.ts";
import type { PluginTable } from "./plugins.ts";
import type { PolicyTable } from "./policies.ts";

type ProfileEntry = NonNullable<Envelope["schedulingProfiles"]>[number];

/** What a scorer weighs when the file doesn't say (scheduling 4.3). */
const DEFAULT_WEIGHT = 1;

/** Kinds that the reference lets stand in a profile, where they do nothing. */
const HARMLESS: Readonly<Partial<Record<PluginKind, string>>> = {
  parser: "name it in requestHandler.parsers",
  "request-hook": "a hook works by being configured",
  producer: "a producer works by being configured",
  screener: "a screener works by being configured",
  admitter: "an admitter works by being configured",
  "request-header-processor": "it works by being configured",
  "profile-handler": "a profile handler works by being configured",
  decider: "name it in the parameters of the profile handler",
  discovery: "name it in dataLayer.discovery.pluginRef",
  "data-source": "name it in dataLayer.sources",
  extractor: "name it in dataLayer.sources, among the extractors of a source",
};

/**
 * The members that one entry of `schedulingProfiles` names, in its order; without a picker when it names none.
 * @param at place of the entry in the document
 * @param into receives what is wrong
 * @param policies of flow control, which are without effect in a profile, too
 * @param warn receives what is without effect: other kinds stand in profiles of published configurations
 */
export function readProfile(
  entry: ProfileEntry,
  at: Path,
  table: PluginTable,
  policies: PolicyTable,
  into: Violation[],
  warn: (path: Path, text: string) => void,
): ProfilePlugin[] {
  const where = `schedulingProfiles[${entry.name}]`;
  const members: ProfilePlugin[] = [];
  (entry.plugins ?? []).forEach(({ pluginRef, weight }, index) => {
    const path = [...at, "plugins", index, "pluginRef"];
    const plugin = table.get(pluginRef);
    if (plugin === undefined && policies.has(pluginRef)) {
      warn(path, `${where} lists ${pluginRef}, which has no effect here: name it in flowControl`);
      return;
    }
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
    if (typeof weight === "number" && definition.kind !== "scorer")
      warn(
        [...at, "plugins", index, "weight"],
        `the weight of ${name} has no effect: it is a ${definition.kind}, and only scorers have one`,
      );
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
  const members: ProfilePlugin[] = [];
  let picker: string | undefined;
  for (const { name, definition: own, parameters, path } of table.values()) {
    const definition = inProfile(own);
    if (!isMember(definition.kind)) continue;
    if (definition.kind === "picker" && picker !== undefined) {
      const problem = `without schedulingProfiles there is one profile of all plugins, and it already has a registered picker plugin, ${picker}; keep one of them, or list what each profile uses`;
      into.push({ path, problem });
    }
    if (definition.kind === "picker") picker ??= name;
    members.push({ definition: definition as ProfilePlugin["definition"], name, parameters, weight: DEFAULT_WEIGHT });
  }
  return members;
}

/** What a plugin is in a profile: where its own kind has no place there, the filter that it is besides, if it is one. */
function inProfile(definition: PluginDefinition): PluginDefinition {
  return isMember(definition.kind) ? definition : (definition.inProfile ?? definition);
}

/** Whether plugins of a kind stand in profiles. */
export function isMember(kind: string): kind is ProfileKind {
  return kind === "filter" || kind === "scorer" || kind === "picker";
}
