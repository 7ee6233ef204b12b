import { didYouMean } from "../../../base/document/nearest.ts";
import { oneLine } from "../../../base/inference/errors.ts";
import type { DataKey } from "../../../base/plugin/keys.ts";
import type { PluginDefinition, PluginKind } from "../../../base/plugin/kinds.ts";
import type { ModuleExports } from "./plugin-import.ts";

/** The function that makes the definitions of each kind. */
const MAKERS: Readonly<Record<PluginKind, string>> = {
  filter: "defineFilter",
  scorer: "defineScorer",
  picker: "definePicker",
  producer: "defineProducer",
  "profile-handler": "defineProfileHandler",
  decider: "defineDecider",
  screener: "defineScreener",
  admitter: "defineAdmitter",
  "request-header-processor": "defineRequestHeaderProcessor",
  "saturation-detector": "defineSaturationDetector",
  "ordering-policy": "defineOrderingPolicy",
  "fairness-policy": "defineFairnessPolicy",
  "usage-limit-policy": "defineUsageLimitPolicy",
  discovery: "defineDiscovery",
  parser: "defineParser",
  "request-hook": "defineRequestHook",
  "data-source": "defineDataSource",
  extractor: "defineExtractor",
};

/** Type names appear in metrics, logs and messages. */
const TYPE = /^[a-z0-9]+(-[a-z0-9]+)*$/;
const MAX_TYPE = 100;

/** The plugins of a module, or its problem in words that follow its name. */
export type FoundDefinitions =
  | { readonly definitions: readonly PluginDefinition[]; readonly problem?: undefined }
  | { readonly problem: string };

/**
 * Returns the plugins that a module exports, under any name. Other named exports are allowed, as long as the module has a
 * plugin. Its default export, if any, must be a plugin.
 */
export function definitionsIn(module: ModuleExports): FoundDefinitions {
  const found = new Set<PluginDefinition>();
  let stranger: string | undefined;
  for (const [name, value] of exportsOf(module)) {
    if (!isOfKnownKind(value)) {
      if (name === "default") return { problem: `has a default export that ${notMade(value)}` };
      stranger ??= `${oneLine(name)} ${notMade(value)}`;
      continue;
    }
    const mistake = mistakeIn(value);
    if (mistake !== undefined) return { problem: `exports ${oneLine(name)}, a ${value.kind} that ${mistake}` };
    found.add(value);
  }
  if (found.size > 0) return { definitions: [...found] };
  const example = "write for example `export default defineScorer({ ... })`";
  return { problem: `exports ${stranger === undefined ? "nothing" : `no plugin: ${stranger}`}; ${example}` };
}

/**
 * Returns the reason why a module lacks the type of an entry, in words that follow the module's name.
 * @param definitions all exports of the module
 */
export function typeNotFound(type: string, definitions: readonly PluginDefinition[]): string {
  const types = definitions.map((definition) => definition.type);
  return `exports ${types.join(", ")}, but no plugin of type ${oneLine(type)}${didYouMean(type, types)}`;
}

/** A CommonJS module, such as compilers write, has its exports in one object. */
function exportsOf(module: ModuleExports): readonly (readonly [string, unknown])[] {
  const whole = module["module.exports"];
  if (whole === undefined) return Object.entries(module);
  if (isOfKnownKind(whole) || typeof whole !== "object" || whole === null) return [["default", whole]];
  return Object.entries(whole);
}

function isOfKnownKind(value: unknown): value is PluginDefinition {
  if (typeof value !== "object" || value === null) return false;
  const { kind } = value as { readonly kind?: unknown };
  return typeof kind === "string" && Object.hasOwn(MAKERS, kind);
}

function notMade(value: unknown): string {
  if (typeof value === "function")
    return "is a function, not a plugin: export the result of defineScorer or another define function";
  if (typeof value !== "object" || value === null)
    return `is ${value === null ? "null" : `a ${typeof value}`}, not a plugin`;
  const { kind } = value as { readonly kind?: unknown };
  if (kind === "gate" || kind === "metric-source") return `is a ${kind}, for the configuration of sluice dispatch only`;
  const keys = Object.keys(value).slice(0, 5).map(oneLine).join(", ");
  return `is an object that no define function made${keys === "" ? "" : ` (it has ${keys})`}: pass the object to defineScorer or another define function`;
}

/** Returns an error that an author without a type checker can make. */
function mistakeIn(definition: PluginDefinition): string | undefined {
  const { kind, type, describe, parameters, create } = definition as Readonly<Record<keyof PluginDefinition, unknown>>;
  const maker = MAKERS[kind as PluginKind];
  if (typeof type !== "string") return `has no type; give ${maker} a type, such as \`type: "my-${String(kind)}"\``;
  if (!TYPE.test(type) || type.length > MAX_TYPE)
    return `has the type ${JSON.stringify(oneLine(type))}; write lower-case words joined by hyphens, at most ${MAX_TYPE} characters`;
  if (typeof create !== "function")
    return `has no create function; ${maker} takes \`create: (parameters) => ({ ... })\``;
  if (typeof describe !== "string") return "has no describe; say in one sentence what it does";
  if (typeof parameters !== "object" || parameters === null || !("_zod" in parameters))
    return "has parameters that are not a schema; use the `z` that sluice/plugin exports, as in `parameters: z.object({ ... })`";
  for (const list of ["produces", "requires", "optional"] as const) {
    const keys: unknown = list === "optional" ? (definition.optional ?? []) : definition[list];
    if (!Array.isArray(keys)) return `has no list ${list}; pass the definition to ${maker}`;
    if (!keys.every(isKey))
      return `lists something in ${list} that is not a key; use the keys that sluice/plugin exports, columnKey or attributeKey`;
    const twice = keys.find((key, at) => keys.findIndex(({ of, name }) => of === key.of && name === key.name) < at);
    if (twice !== undefined)
      return `lists two keys called ${oneLine(twice.name)} in ${list}; give each a different name`;
  }
  return undefined;
}

function isKey(value: unknown): value is DataKey {
  const { of, name } = (value ?? {}) as { readonly of?: unknown; readonly name?: unknown };
  return (of === "endpoint" || of === "request") && typeof name === "string" && name !== "";
}
