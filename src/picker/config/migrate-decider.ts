import type { Path } from "../../base/document/document.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import type { Envelope } from "./envelope.ts";

/** The origin of a parameter that is not in its own entry under its own name. */
export interface ParameterOrigin {
  readonly path: Path;
  /** The name of the parameter there. */
  readonly as: string;
}

/** One entry of `plugins`, and its place in the file. */
export type PluginEntry = NonNullable<Envelope["plugins"]>[number] & {
  readonly path: Path;
  /** The origins of moved or renamed parameters, by their present name. */
  readonly origins?: ReadonlyMap<string, ParameterOrigin>;
};

/** The change for a pd-profile-handler with a threshold of its own, as up to release 0.5 of llm-d. */
export interface DeciderPlan {
  /** Index of the handler in `plugins`. */
  readonly at: number;
  /** Parameters of the handler to remove. */
  readonly keys: readonly string[];
  /** The decider that replaces them; undefined where the file has one. */
  readonly decider: { readonly name: string; readonly type: string; readonly nonCachedTokens: number } | undefined;
  /** Whether the decider gets a new entry; else the file has an equal one. */
  readonly isNew: boolean;
}

const HANDLER = "pd-profile-handler";
/** The decider of a handler that names none. */
const USUAL = "prefix-based-pd-decider";
const ALWAYS = "always-disagg-pd-decider";
/** The parameter that names the decider; older files lack it. */
export const DECIDER = "deciderPluginName";
/** The number of uncached characters of a prompt from which a stage of its own pays off. */
const THRESHOLD = "threshold";
/** Characters of a prefix block, by which the handler computed the cached part. */
const BLOCK_CHARACTERS = "hashBlockSize";
const CHARACTERS_PER_TOKEN = 4;

/**
 * A handler without a decider, in a file without the default decider, comes from a release without deciders. There, 0 or no
 * threshold meant both stages for every request. A handler with a decider ignored its threshold and block size.
 */
export function planDecider({ plugins }: Envelope, registry: PluginRegistry): DeciderPlan | undefined {
  const at = plugins?.findIndex(({ type }) => type === HANDLER) ?? -1;
  if (plugins == null || at < 0 || [HANDLER, USUAL, ALWAYS].some((type) => registry.get(type) === undefined))
    return undefined;
  const parameters = plugins[at]!.parameters ?? {};
  const keys = [THRESHOLD, BLOCK_CHARACTERS].filter((key) => key in parameters);
  const named = plugins.map(({ name, type }) => ({ name: name || type, type }));
  if (parameters[DECIDER] != null || named.some(({ name }) => name === USUAL))
    return keys.length === 0 ? undefined : { at, keys, decider: undefined, isNew: false };
  const threshold = thresholdOf(parameters) ?? 0;
  const type = threshold === 0 ? ALWAYS : USUAL;
  const nonCachedTokens = Math.ceil(threshold / CHARACTERS_PER_TOKEN);
  const same = threshold === 0 ? named.find((plugin) => plugin.type === ALWAYS) : undefined;
  let name = same?.name ?? type;
  if (same === undefined) for (let n = 2; named.some((plugin) => plugin.name === name); n++) name = `${type}-${n}`;
  return { at, keys, decider: { name, type, nonCachedTokens }, isNew: same === undefined };
}

/** Returns 0 without a threshold, undefined for an invalid one. */
function thresholdOf(parameters: Readonly<Record<string, unknown>>): number | undefined {
  const given = parameters[THRESHOLD] ?? 0;
  return typeof given === "number" && Number.isInteger(given) && given >= 0 ? given : undefined;
}

/**
 * Carries out a plan.
 * @param entries of `plugins`; the function changes them and adds to them
 * @param into receives the violations
 * @param warn called with the new form
 */
export function migrateDecider(
  { at, keys, decider, isNew }: DeciderPlan,
  entries: PluginEntry[],
  into: Violation[],
  warn: (path: Path, text: string) => void,
): void {
  const handler = entries[at]!;
  const parameters: Record<string, unknown> = { ...handler.parameters };
  const place = [...handler.path, "parameters", THRESHOLD];
  const hasThreshold = THRESHOLD in parameters;
  if (decider !== undefined && thresholdOf(parameters) === undefined)
    into.push({
      path: place,
      problem: `must be a whole number of characters, 0 or more, got ${JSON.stringify(parameters[THRESHOLD])}`,
    });
  for (const key of keys) {
    delete parameters[key];
    if (key === THRESHOLD && decider !== undefined) continue;
    const because =
      key === THRESHOLD ? "the decider replaces it" : "the producer of prefix matches knows its block size";
    warn([...handler.path, "parameters", key], `${key} is deprecated and has no effect: ${because}; remove it`);
  }
  if (decider === undefined) {
    entries[at] = { ...handler, parameters };
    return;
  }
  const { name, type, nonCachedTokens } = decider;
  const own = type === ALWAYS ? undefined : { nonCachedTokens };
  const today = JSON.stringify({ ...(name === type ? {} : { name }), type, ...(own && { parameters: own }) });
  const entry = isNew ? `add the entry ${today} to plugins and write` : "write";
  const what = hasThreshold ? "threshold is deprecated" : `${HANDLER} without a decider is deprecated`;
  warn(hasThreshold ? place : handler.path, `${what}; ${entry} ${DECIDER}: ${name} instead`);
  const from: ParameterOrigin = { path: hasThreshold ? place : handler.path, as: hasThreshold ? THRESHOLD : HANDLER };
  const origins = new Map([...(handler.origins ?? []), [DECIDER, from]]);
  entries[at] = { ...handler, parameters: { ...parameters, [DECIDER]: name }, origins };
  if (isNew)
    entries.push({
      type,
      name,
      parameters: own,
      path: handler.path,
      ...(own && { origins: new Map([["nonCachedTokens", from]]) }),
    });
}
