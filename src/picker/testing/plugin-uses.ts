import { messageOf } from "../../base/inference/errors.ts";
import type { PluginDescription } from "../../base/plugin/instances.ts";
import type { PluginDefinition, PluginKind } from "../../base/plugin/kinds.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import type { MemberDescription } from "../scheduling/build.ts";
import { SCHEDULING_PLUGINS } from "../scheduling/plugins/index.ts";

/** The settings of a plugin in a test, as in the configuration file. */
export interface PluginSettings {
  /** Default: the type. */
  readonly name?: string;
  /** The plugin's own schema checks them. */
  readonly parameters?: Readonly<Record<string, unknown>>;
  /** The weight of a scorer; default 1. */
  readonly weight?: number;
}

/** A plugin of yours, or the type name of a built-in one; alone, or with settings. */
export type PluginUse =
  | PluginDefinition
  | string
  | readonly [plugin: PluginDefinition | string, settings: PluginSettings];

/** The built-in plugins: the source of producers that a test does not name. */
export const BUILT_IN = new PluginRegistry(SCHEDULING_PLUGINS);

/** The kinds that take part in a decision. */
const SCHEDULING: readonly PluginKind[] = [
  "filter",
  "scorer",
  "picker",
  "producer",
  "profile-handler",
  "decider",
  "screener",
  "admitter",
];

/** Returns a plugin as the configuration would describe it. @throws Error with the problem of the plugin */
export function describedBy(use: PluginUse): MemberDescription {
  const [plugin, { name, parameters = {}, weight }] = isPair(use) ? use : [use, {}];
  const definition = typeof plugin === "string" ? BUILT_IN.get(plugin) : plugin;
  if (definition === undefined)
    throw new Error(`there is no built-in plugin type ${String(plugin)}; known are ${BUILT_IN.types().join(", ")}`);
  const { type, kind } = definition;
  if (!SCHEDULING.includes(kind))
    throw new Error(`${type} is a ${kind} and takes no part in a decision; call its methods in the test instead`);
  const parsed = strictly(definition).safeParse(parameters);
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `${[...path, ""].join(": ")}${message}`);
    throw new Error(`wrong parameters of ${type}: ${problems.join("; ")}`);
  }
  return { definition, name: name ?? type, parameters: parsed.data, weight };
}

/** Returns the plugins of one kind. */
export function ofKind<K extends PluginKind>(kind: K, plugins: readonly PluginDescription[]): PluginDescription<K>[] {
  return plugins.filter((plugin) => plugin.definition.kind === kind) as unknown as PluginDescription<K>[];
}

/** Returns the error of a plugin under test, with its name. */
export function failureOf(name: string, point: string, cause: unknown): Error {
  return new Error(`plugin ${name} threw (${point}): ${messageOf(cause)}`, { cause });
}

function isPair(use: PluginUse): use is readonly [PluginDefinition | string, PluginSettings] {
  return Array.isArray(use);
}

/** An unknown parameter is refused, as in a configuration, even where the schema is a plain `z.object`. */
function strictly({ parameters }: PluginDefinition): PluginDefinition["parameters"] {
  const object = parameters as PluginDefinition["parameters"] & {
    readonly def: { readonly type?: string; readonly catchall?: unknown };
    strict?(): PluginDefinition["parameters"];
  };
  return object.def.type === "object" && object.def.catchall === undefined ? (object.strict?.() ?? object) : object;
}
