import type { Path } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { PluginDefinition, PluginKind } from "../../base/plugin/kinds.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import type { ConfiguredPlugin, MemberKind, ProfilePlugin } from "./effective.ts";
import type { Envelope } from "./envelope.ts";
import { defaultOf, isOfKind, type PluginTable, referencedPlugin } from "./plugins.ts";

type ProfileEntry = NonNullable<Envelope["schedulingProfiles"]>[number];

/** The weight of a scorer without one in the file (scheduling 4.3). */
const DEFAULT_WEIGHT = 1;

/** Kinds that the reference accepts in a profile without any effect. */
const HARMLESS: Readonly<Partial<Record<PluginKind, string>>> = {
  parser: "name it in requestHandler.parsers",
  "request-hook": "a hook needs no place in a profile",
  producer: "a producer needs no place in a profile",
  screener: "a screener needs no place in a profile",
  admitter: "an admitter needs no place in a profile",
  "request-header-processor": "it needs no place in a profile",
  "profile-handler": "a profile handler needs no place in a profile",
  decider: "name it in the parameters of the profile handler",
  discovery: "name it in dataLayer.discovery.pluginRef",
  "data-source": "name it in dataLayer.sources",
  extractor: "name it in dataLayer.sources, among the extractors of a source",
  "ordering-policy": "name it in flowControl",
  "fairness-policy": "name it in flowControl",
  "usage-limit-policy": "name it in flowControl",
};

/**
 * Returns the members that one entry of `schedulingProfiles` names, in its order; without a picker when it names none.
 * @param at place of the entry in the document
 * @param into receives the violations
 * @param idle names of plugins that have no effect anywhere, and so none in a profile
 * @param warn called for members without effect: published configurations have other kinds in profiles
 */
export function readProfile(
  entry: ProfileEntry,
  at: Path,
  table: PluginTable,
  idle: ReadonlyMap<string, unknown>,
  into: Violation[],
  warn: (path: Path, text: string) => void,
): ProfilePlugin[] {
  const where = `schedulingProfiles[${entry.name}]`;
  const members: ProfilePlugin[] = [];
  (entry.plugins ?? []).forEach(({ pluginRef, weight }, index) => {
    const path = [...at, "plugins", index, "pluginRef"];
    if (idle.has(pluginRef)) {
      warn(path, `${where} lists ${pluginRef}, which has no effect`);
      return;
    }
    const plugin = referencedPlugin(pluginRef, path, where, table, into);
    if (plugin === undefined) return;
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
      into.push({ path, problem: `${where} lists ${name} twice; keep one, with the right weight` });
    else if (definition.kind === "picker" && members.some((member) => member.definition.kind === "picker"))
      into.push({ path, problem: `${where} already has a registered picker plugin; keep one picker` });
    if (typeof weight === "number" && definition.kind !== "scorer")
      warn(
        [...at, "plugins", index, "weight"],
        `the weight of ${name} has no effect: only scorers have a weight, and this is a ${definition.kind}`,
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

/**
 * Returns every configured filter, scorer and picker: the profile of a file that has plugins and no profiles (scheduling 4.3).
 */
export function profileOfAll(table: PluginTable, into: Violation[]): ProfilePlugin[] {
  const members: ProfilePlugin[] = [];
  let picker: string | undefined;
  for (const { name, definition: own, parameters, path } of table.values()) {
    const definition = inProfile(own);
    if (!isMember(definition.kind)) continue;
    if (definition.kind === "picker" && picker !== undefined) {
      const problem = `without schedulingProfiles, all plugins are in one profile, which already has a registered picker plugin, ${picker}; keep one picker, or list the plugins of each profile`;
      into.push({ path, problem });
    }
    if (definition.kind === "picker") picker ??= name;
    members.push({ definition: definition as ProfilePlugin["definition"], name, parameters, weight: DEFAULT_WEIGHT });
  }
  return members;
}

/** Returns the definition that a plugin has in a profile. A plugin of a kind that has no place there may also be a filter. */
function inProfile(definition: PluginDefinition): PluginDefinition {
  return isMember(definition.kind) ? definition : (definition.inProfile ?? definition);
}

/** Whether plugins of a kind belong in profiles. */
export function isMember(kind: string): kind is MemberKind {
  return kind === "filter" || kind === "scorer" || kind === "picker";
}

/** Handlers of one profile, with their names in the messages of the reference. */
const OF_ONE: ReadonlyMap<string, string> = new Map([
  ["single-profile-handler", "SingleProfileHandler"],
  ["data-parallel-profile-handler", "data-parallel-profile-handler"],
]);

/**
 * Returns the profile handler: the configured one, or the default one for a single profile (scheduling 4.3).
 * @param profiles the number of profiles
 * @param into receives several handlers, and several profiles without a handler for several
 * @throws SluiceError PLUGIN_TYPE_MISSING
 */
export function readHandler(
  profiles: number,
  table: PluginTable,
  registry: PluginRegistry,
  into: Violation[],
): ConfiguredPlugin<"profile-handler"> {
  const [first, ...more] = [...table.values()].filter(isOfKind("profile-handler"));
  for (const { name, path } of more)
    into.push({ path, problem: `multiple profile handlers found: ${first?.name} and ${name}; keep one` });
  if (profiles > 1 && more.length === 0 && (first === undefined || OF_ONE.has(first.definition.type))) {
    const others = registry
      .types()
      .filter((type) => !OF_ONE.has(type) && registry.get(type)?.kind === "profile-handler")
      .map((type) => `\`type: ${type}\``);
    const remedy = `${others.length === 0 ? "" : `, such as ${others.join(" or ")}`}, or keep one profile`;
    into.push(
      first === undefined
        ? {
            path: ["schedulingProfiles", 1],
            problem: `no profile handler configured, but several scheduling profiles need one; add one to plugins${remedy}`,
          }
        : {
            path: first.path,
            problem: `${OF_ONE.get(first.definition.type)} cannot support multiple scheduling profiles; configure another handler${remedy}`,
          },
    );
  }
  return first ?? defaultOf("single-profile-handler", "profile-handler", registry);
}

/** Handlers that need a certain profile, with its name (scheduling 3.7). */
const NEEDED: ReadonlyMap<string, (parameters: StageNames) => string> = new Map(
  ["disagg-profile-handler", "pd-profile-handler"].map((type) => [
    type,
    ({ profiles, decodeProfile }) => profiles?.decode || decodeProfile || "decode",
  ]),
);

interface StageNames {
  readonly profiles?: { readonly decode?: string | undefined } | undefined;
  readonly decodeProfile?: string | undefined;
}

/** Refuses a handler without the profile that it needs, because it would refuse every request. */
export function checkNeededProfile(
  { definition, name, parameters }: ConfiguredPlugin,
  profiles: readonly string[],
  table: PluginTable,
  into: Violation[],
): void {
  // Wrong parameters are already reported.
  const needed = parameters === undefined ? undefined : NEEDED.get(definition.type)?.(parameters as StageNames);
  if (needed === undefined || profiles.includes(needed)) return;
  const problem = `plugin ${name} uses the profile ${needed} for every request, but this profile does not exist; add it to schedulingProfiles, or name one of these in its parameters: ${profiles.join(", ")}`;
  into.push({ path: table.get(name)?.path ?? [], problem });
}

/** Parameters that name a profile, besides those in `profiles`. */
const NAMES_PROFILE = /(^p|P)rofile(Name)?$/;

/**
 * Warns about parameters that name a profile that does not exist: requests would be refused, or a stage would never run.
 * @param warn called for each, with its place in the file
 */
export function warnOfProfiles(
  profiles: readonly string[],
  table: PluginTable,
  warn: (path: Path, text: string) => void,
): void {
  for (const { name, entry } of table.values())
    for (const [path, wanted] of profileNames(entry.parameters ?? {}))
      if (wanted !== "" && !profiles.includes(wanted)) {
        const hint = didYouMean(wanted, profiles) || `; the profiles are ${profiles.join(", ")}`;
        warn(
          [...entry.path, "parameters", ...path],
          `plugin ${name} names the profile ${wanted}, which does not exist${hint}`,
        );
      }
}

function profileNames(parameters: Readonly<Record<string, unknown>>): (readonly [Path, string])[] {
  const found: (readonly [Path, string])[] = [];
  for (const [key, value] of Object.entries(parameters)) {
    if (typeof value === "string" && NAMES_PROFILE.test(key)) found.push([[key], value]);
    if (key !== "profiles" || typeof value !== "object" || value === null) continue;
    for (const [stage, name] of Object.entries(value)) if (typeof name === "string") found.push([[key, stage], name]);
  }
  return found;
}
