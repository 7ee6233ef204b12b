import { z } from "zod";
import type { Path } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import { check, isUnknownKey, knownKeys, type Violation } from "../../base/document/validate.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { PluginDefinition, PluginKind } from "../../base/plugin/kinds.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import type { ConfiguredPlugin } from "./effective.ts";
import type { PluginEntry } from "./migrate-decider.ts";
import { whyNoParameter } from "./published.ts";

/** A plugin of the file with its place there. */
export type TableEntry = ConfiguredPlugin & { readonly path: Path; readonly entry: PluginEntry };

/** The configured plugins by instance name, in the order of the file. */
export type PluginTable = Map<string, TableEntry>;

/** The result of reading `plugins` of a file. */
interface ReadPlugins {
  readonly table: PluginTable;
  /** The entries whose types are accepted without effect, by instance name. */
  readonly idle: ReadonlyMap<string, PluginEntry>;
}

/**
 * Reads the entries of `plugins`: names, duplicates, parameters.
 * @param into receives the violations; a plugin with wrong parameters stays in the table, so that references to it hold
 */
export function readPlugins(entries: readonly PluginEntry[], registry: PluginRegistry, into: Violation[]): ReadPlugins {
  const table: PluginTable = new Map();
  const idle = new Map<string, PluginEntry>();
  for (const entry of entries) {
    const { path, type } = entry;
    const name = entry.name || type;
    if (table.has(name) || idle.has(name)) {
      const hint = entry.name ? "" : "; give one of the two a different `name`";
      into.push({ path, problem: `duplicate plugin name ${name}${hint}` });
      continue;
    }
    const definition = registry.get(type);
    // The schema of the envelope accepts only types that are registered or without effect.
    const schema = definition?.parameters ?? z.strictObject({});
    const wrong: Violation[] = [];
    const parsed = checkParameters(entry.parameters ?? {}, strictly(schema), [...path, "parameters"], wrong);
    for (const { path: place, problem } of wrong) {
      const said = withRemedy(problem, type, schema, place.slice(path.length + 1));
      into.push({
        path: whereItStands(entry, place),
        problem: `failed to create plugin ${name} (type: ${type}): ${said}`,
      });
    }
    if (definition === undefined) idle.set(name, entry);
    else table.set(name, { definition, name, parameters: parsed?.output, path, entry });
  }
  return { table, idle };
}

/**
 * Checks parameters. A null where the schema allows none counts as absent, because templates leave such nulls (scheduling 4.1).
 * A null under a key that the author chose, such as a label, is an error. A selector with one label less would select more.
 */
function checkParameters(given: Json, schema: z.ZodType, at: Path, into: Violation[]): ReturnType<typeof check> {
  const wrong: Violation[] = [];
  const parsed = check(given, schema, at, wrong);
  const inner = wrong.filter(({ problem }) => !isUnknownKey(problem)).map(({ path }) => path.slice(at.length));
  const copy = structuredClone(given);
  const isLess = inner.map((path) => removeNull(copy, path, schema)).includes(true);
  if (isLess) return check(copy, schema, at, into);
  into.push(...wrong);
  return parsed;
}

type Json = Record<string, unknown>;

/** Removes a null at the path under a key that the schema knows. @returns whether it did */
function removeNull(from: Json, path: Path, schema: z.ZodType): boolean {
  const outer = path.slice(0, -1);
  const key = path.at(-1);
  if (typeof key !== "string" || !knownKeys(schema, outer).includes(key)) return false;
  let value: unknown = from;
  for (const step of outer) value = (value as Json | undefined)?.[step];
  const mapping = value as Json | undefined;
  return mapping?.[key] === null && delete mapping[key];
}

/** Adds a remedy to a problem with a key that resembles no known one. @param inner place in the parameters */
function withRemedy(problem: string, type: string, schema: z.ZodType, inner: Path): string {
  const key = String(inner.at(-1));
  if (problem !== `unknown key \`${key}\``) return problem;
  const reason = inner.length === 1 ? whyNoParameter(type, key) : undefined;
  if (reason !== undefined) return reason;
  const known = knownKeys(schema, inner.slice(0, -1));
  if (known.length > 0) return `${problem}; remove it; the known keys are ${known.join(", ")}`;
  return `${problem}; remove it${inner.length === 1 ? `, ${type} has no parameters` : ""}`;
}

/** Returns the place in the file of a part of an entry's parameters, which a migration may have moved. */
export function whereItStands({ path, origins }: PluginEntry, place: Path): Path {
  const key = path.length + 1;
  const origin = origins?.get(String(place[key]));
  return origin === undefined ? place : [...origin.path, ...place.slice(key + 1)];
}

/**
 * Returns the plugin of the file that a section refers to by name.
 * @param what the name of the section in messages
 * @param into receives a violation for a name that no plugin has
 */
export function referencedPlugin(
  ref: string,
  path: Path,
  what: string,
  table: PluginTable,
  into: Violation[],
): TableEntry | undefined {
  const plugin = table.get(ref);
  if (plugin === undefined)
    into.push({ path, problem: `${what} references undefined plugin ${ref}${didYouMean(ref, table.keys())}` });
  return plugin;
}

/** Returns a plugin with its default parameters. */
export function defaultPlugin<K extends PluginKind>(definition: PluginDefinition<K>): ConfiguredPlugin<K> {
  return { definition, name: definition.type, parameters: definition.parameters.parse({}) };
}

/**
 * Returns the plugin of a type with its default parameters.
 * @throws SluiceError PLUGIN_TYPE_MISSING when the process lacks a type that the defaults need
 */
export function defaultOf<K extends PluginKind>(type: string, kind: K, registry: PluginRegistry): ConfiguredPlugin<K> {
  const definition = registry.get(type);
  if (definition?.kind !== kind)
    throw new SluiceError(
      "PLUGIN_TYPE_MISSING",
      `the defaults need a ${kind} of type ${type}, but this type is not registered`,
    );
  return defaultPlugin(definition as PluginDefinition<K>);
}

/** Returns a test for plugins of one kind. */
export function isOfKind<K extends PluginKind>(kind: K) {
  return <P extends ConfiguredPlugin>(plugin: P): plugin is P & ConfiguredPlugin<K> => plugin.definition.kind === kind;
}

/**
 * Returns a schema that refuses unknown parameters, even where a plugin's author wrote a plain `z.object`. This also holds
 * inside `transform`, `pipe`, `preprocess`, `default` and the like, and inside the alternatives of a union. Inner objects stay
 * as their author made them. So do intersections, in which each side knows only its own keys.
 */
function strictly<S extends z.core.$ZodType>(schema: S): S {
  const def = (schema as unknown as z.core.$ZodTypes)._zod.def;
  // zod computes some parts of a definition at their first use and keeps them.
  const changed = (change: object): S =>
    z.core.clone(schema, z.core.util.mergeDefs(schema._zod.def, change) as S["_zod"]["def"]);
  switch (def.type) {
    case "object":
      return def.catchall === undefined ? changed({ catchall: z.never() }) : schema;
    case "pipe":
      // A preprocessing step comes first, and what it hands on is checked.
      return def.in._zod.def.type === "transform"
        ? changed({ out: strictly(def.out) })
        : changed({ in: strictly(def.in) });
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "nonoptional":
    case "readonly":
    case "catch":
      return changed({ innerType: strictly(def.innerType) });
    case "union":
      return changed({ options: def.options.map((option) => strictly(option)) });
    default:
      return schema;
  }
}

/**
 * Warns about plugins that load: deprecated types, once each; numbers out of range, which count as other numbers; notes of the
 * plugins.
 * @param warn called for each, with its place in the file
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
    // Wrong parameters are already reported.
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

/** The reason why a configured plugin may have no effect, by kind; plugins of the other kinds always act. */
export const REMEDIES: Readonly<Partial<Record<PluginKind, string>>> = {
  filter: "no profile refers to it",
  scorer: "no profile refers to it",
  picker: "no profile uses it",
  decider: "name it in the parameters of the profile handler",
  "saturation-detector": "name it in flowControl.saturationDetector.pluginRef",
  discovery: "name it in dataLayer.discovery.pluginRef",
  parser: "name it in requestHandler.parsers",
  "data-source": "name it in dataLayer.sources",
  extractor: "name it in dataLayer.sources, among the extractors of a source",
  "ordering-policy": "name it in flowControl, as the orderingPolicyRef of a band",
  "fairness-policy": "name it in flowControl, as the fairnessPolicyRef of a band",
  "usage-limit-policy": "name it in flowControl.usageLimitPolicyPluginRef",
};
