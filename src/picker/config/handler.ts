import type { Path } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import type { ConfiguredPlugin } from "./effective.ts";
import { defaultOf, isOfKind, type PluginTable } from "./plugins.ts";

const SINGLE = "single-profile-handler";

/**
 * The profile handler: the configured one, or for a single profile the one that runs it (scheduling 4.3).
 * @param profiles how many there are
 * @param into receives several handlers, and several profiles without one that copes with them
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
  if (profiles > 1 && more.length === 0 && (first === undefined || first.definition.type === SINGLE)) {
    const others = registry
      .types()
      .filter((type) => type !== SINGLE && registry.get(type)?.kind === "profile-handler")
      .map((type) => `\`type: ${type}\``);
    const remedy = `${others.length === 0 ? "" : `, such as ${others.join(" or ")}`}, or keep one profile`;
    into.push(
      first === undefined
        ? {
            path: ["schedulingProfiles", 1],
            problem: `no profile handler configured, which several scheduling profiles need; add one to plugins${remedy}`,
          }
        : {
            path: first.path,
            problem: `SingleProfileHandler cannot support multiple scheduling profiles; configure one that can${remedy}`,
          },
    );
  }
  return first ?? defaultOf(SINGLE, "profile-handler", registry);
}

/** Handlers that can't do without a certain profile: its name (scheduling 3.7). */
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

/** Refuses a handler whose requests would all be refused, as the profile that answers them is missing. */
export function checkNeededProfile(
  { definition, name, parameters }: ConfiguredPlugin,
  profiles: readonly string[],
  table: PluginTable,
  into: Violation[],
): void {
  // Wrong parameters have been reported already.
  const needed = parameters === undefined ? undefined : NEEDED.get(definition.type)?.(parameters as StageNames);
  if (needed === undefined || profiles.includes(needed)) return;
  const problem = `plugin ${name} answers every request by the profile ${needed}, which does not exist; add it to schedulingProfiles, or name another one in the parameters of the plugin; there ${profiles.length === 1 ? "is" : "are"} ${profiles.join(", ")}`;
  into.push({ path: table.get(name)?.path ?? [], problem });
}

/** Parameters that name a profile; those in `profiles` do, too. */
const NAMES_PROFILE = /(^p|P)rofile(Name)?$/;

/**
 * Tells of parameters that name a profile which does not exist: requests would be refused, or a stage never run.
 * @param warn told each, with its place in the file
 */
export function warnOfProfiles(
  profiles: readonly string[],
  table: PluginTable,
  warn: (path: Path, text: string) => void,
): void {
  for (const { name, entry } of table.values())
    for (const [path, wanted] of profileNames(entry.parameters ?? {}))
      if (wanted !== "" && !profiles.includes(wanted)) {
        const hint = didYouMean(wanted, profiles) || `; there are ${profiles.join(", ")}`;
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
