import type { Path } from "../../base/document/document.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import type { Envelope } from "./envelope.ts";

/** Where a parameter comes from that doesn't stand in its own entry under its own name. */
export interface ParameterOrigin {
  readonly path: Path;
  /** How it is called there. */
  readonly as: string;
}

/** One entry of `plugins`, and where in the file it stands. */
export type PluginEntry = NonNullable<Envelope["plugins"]>[number] & {
  readonly path: Path;
  /** Of parameters that were moved or renamed, by today's name. */
  readonly origins?: ReadonlyMap<string, ParameterOrigin>;
};

/** What stands where pd-profile-handler had a threshold of its own, up to release 0.5 of llm-d. */
export interface DeciderPlan {
  /** Index of the handler in `plugins`. */
  readonly at: number;
  /** Parameters of the handler that go. */
  readonly keys: readonly string[];
  /** The decider that does their work; undefined where the file has one. */
  readonly decider: { readonly name: string; readonly type: string; readonly nonCachedTokens: number } | undefined;
  /** Whether it gets an entry of its own; else there is one that does the same. */
  readonly isNew: boolean;
}

const HANDLER = "pd-profile-handler";
/** Decides where the handler names none. */
const USUAL = "prefix-based-pd-decider";
const ALWAYS = "always-disagg-pd-decider";
/** Names the decider, and is absent from older files. */
export const DECIDER = "deciderPluginName";
/** Characters of a prompt outside the prefix cache from which it is worth a stage of its own. */
const THRESHOLD = "threshold";
/** Of prefixes; the handler computed by it how much was cached. */
const BLOCK_CHARACTERS = "hashBlockSize";
const CHARACTERS_PER_TOKEN = 4;

/**
 * A handler that names no decider in a file without the usual one comes from a release before there were deciders: 0 or no
 * threshold meant both stages for every request. With a decider its threshold and block size were passed over.
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

/** 0 where there is none, undefined for what is no threshold. */
function thresholdOf(parameters: Readonly<Record<string, unknown>>): number | undefined {
  const given = parameters[THRESHOLD] ?? 0;
  return typeof given === "number" && Number.isInteger(given) && given >= 0 ? given : undefined;
}

/**
 * Carries a plan out.
 * @param entries of `plugins`; changed and added to
 * @param into receives what is wrong
 * @param warn told what to write instead
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
      problem: `must be a whole number of characters from 0 up, got ${JSON.stringify(parameters[THRESHOLD])}`,
    });
  for (const key of keys) {
    delete parameters[key];
    if (key === THRESHOLD && decider !== undefined) continue;
    const because = key === THRESHOLD ? "the decider decides" : "the producer of prefix matches knows its block size";
    warn([...handler.path, "parameters", key], `${key} has no effect: ${because}; remove it, it is deprecated`);
  }
  if (decider === undefined) {
    entries[at] = { ...handler, parameters };
    return;
  }
  const { name, type, nonCachedTokens } = decider;
  const own = type === ALWAYS ? undefined : { nonCachedTokens };
  const today = JSON.stringify({ ...(name === type ? {} : { name }), type, ...(own && { parameters: own }) });
  const entry = isNew ? `give plugins the entry ${today} and write` : "write";
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
