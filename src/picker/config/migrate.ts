import type { Path } from "../../base/document/document.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import { type Envelope, INLINE_THRESHOLDS } from "./envelope.ts";
import {
  type DeciderPlan,
  migrateDecider,
  type ParameterOrigin,
  type PluginEntry,
  planDecider,
} from "./migrate-decider.ts";
import { renamedType } from "./published.ts";

/** A parameter of the prefix cache with its old and its present name; `to` undefined = it has no meaning any more. */
export interface PluginMove {
  readonly key: string;
  readonly to: string | undefined;
  readonly value: unknown;
}

/** The outdated parts of a file. */
export interface MigrationPlan {
  /** Types with a new name. */
  readonly renamed: readonly { readonly at: number; readonly from: string; readonly to: string }[];
  /** Parameters of the prefix cache on a scorer, which move to a producer of their own. */
  readonly prefix:
    | { readonly at: number; readonly moves: readonly PluginMove[]; readonly noTokenLimit: boolean }
    | undefined;
  /** Producers with parameters under old names. */
  readonly producers: readonly { readonly at: number; readonly moves: readonly PluginMove[] }[];
  /** A detector given only by thresholds, which gets an entry under this name. */
  readonly detector: { readonly name: string; readonly keys: readonly Threshold[] } | undefined;
  /** A handler of two stages that has no decider yet. */
  readonly decider: DeciderPlan | undefined;
}

const SCORER = "prefix-cache-scorer";
export const PREFIX_PRODUCER = "approx-prefix-cache-producer";
export const DETECTOR = "utilization-detector";
/** Counts characters; its successor `blockSizeTokens` counts tokens. */
const BLOCK_CHARACTERS = "hashBlockSize";
const BLOCK_TOKENS = "blockSizeTokens";
/** An older name of `blockSizeTokens`. It counts while `blockSizeTokens` has its default. */
const BLOCK_ALIAS = "blockSize";
const DEFAULT_BLOCK_TOKENS = 16;
const CHARACTERS_PER_TOKEN = 4;
/** Parameters of the scorer of v1.0 or v1.5 that its producer takes now (scheduling 3.9.1). */
const MOVED: ReadonlySet<string> = new Set([
  BLOCK_CHARACTERS,
  "autoTune",
  BLOCK_ALIAS,
  BLOCK_TOKENS,
  "maxPrefixBlocksToMatch",
  "maxPrefixTokensToMatch",
  "lruCapacityPerServer",
]);

type Threshold = (typeof INLINE_THRESHOLDS)[number];

/** Finds all outdated parts. */
export function planMigration(envelope: Envelope, registry: PluginRegistry): MigrationPlan {
  const plugins = envelope.plugins ?? [];
  const renamed: MigrationPlan["renamed"][number][] = [];
  plugins.forEach(({ type: from }, at) => {
    const to = renamedType(from, registry);
    if (to !== undefined) renamed.push({ at, from, to });
  });
  const producers: MigrationPlan["producers"][number][] = [];
  plugins.forEach(({ type, parameters }, at) => {
    if (type !== PREFIX_PRODUCER) return;
    const moves = movesOf(parameters ?? {}, "producer").filter(({ key, to }) => key !== to && key !== BLOCK_CHARACTERS);
    if (moves.length > 0) producers.push({ at, moves });
  });
  return {
    renamed,
    prefix: prefixOf(plugins, registry),
    producers,
    detector: detectorOf(envelope, plugins),
    decider: planDecider(envelope, registry),
  };
}

/** With a producer in the file, the scorer's parameters stay in place and are refused like any unknown key. */
function prefixOf(plugins: NonNullable<Envelope["plugins"]>, registry: PluginRegistry): MigrationPlan["prefix"] {
  const at = plugins.findIndex(
    ({ type, parameters }) => type === SCORER && Object.keys(parameters ?? {}).some((key) => MOVED.has(key)),
  );
  if (at < 0 || registry.get(PREFIX_PRODUCER) === undefined) return undefined;
  if (plugins.some(({ type, name }) => type === PREFIX_PRODUCER || name === PREFIX_PRODUCER)) return undefined;
  const moves = movesOf(plugins[at]!.parameters ?? {}, "scorer");
  // Then the limit in tokens was off by default, but would win now.
  const has = (key: string): boolean => moves.some((move) => move.key === key);
  return { at, moves, noTokenLimit: has("maxPrefixBlocksToMatch") && !has("maxPrefixTokensToMatch") };
}

/**
 * Of several block sizes one counts. On a producer: the present key, unless it has its default beside the alias; else the
 * alias, else characters. On a scorer: the present key, else the alias, which counted characters from v1.1 to v1.3, else the
 * older name.
 */
function movesOf(parameters: Readonly<Record<string, unknown>>, on: "scorer" | "producer"): PluginMove[] {
  const tokens = parameters[BLOCK_TOKENS];
  const isLeft = tokens === undefined || (on === "producer" && tokens === DEFAULT_BLOCK_TOKENS);
  const isGiven = Number.isInteger(parameters[BLOCK_ALIAS]);
  const aliasCounts = isGiven && isLeft;
  const inTokens = (value: unknown): unknown =>
    isBlockLength(value) ? Math.ceil(value / CHARACTERS_PER_TOKEN) : value;
  const moves: PluginMove[] = [];
  for (const [key, value] of Object.entries(parameters)) {
    if (!MOVED.has(key)) continue;
    if (key === BLOCK_CHARACTERS) {
      const counts = isBlockLength(value) && !aliasCounts && tokens === undefined;
      moves.push(counts ? { key, to: BLOCK_TOKENS, value: inTokens(value) } : { key, to: undefined, value });
    } else if (key === BLOCK_ALIAS && aliasCounts)
      moves.push({ key, to: BLOCK_TOKENS, value: on === "scorer" ? inTokens(value) : value });
    else if (key === BLOCK_ALIAS && isGiven && on === "scorer") moves.push({ key, to: undefined, value });
    else if (key === BLOCK_TOKENS && aliasCounts) moves.push({ key, to: undefined, value });
    else moves.push({ key, to: key, value });
  }
  return moves;
}

function isBlockLength(value: unknown): value is number {
  return typeof value === "number" && value >= 1;
}

function detectorOf(
  { saturationDetector: old, flowControl }: Envelope,
  plugins: NonNullable<Envelope["plugins"]>,
): MigrationPlan["detector"] {
  const keys = INLINE_THRESHOLDS.filter((key) => old?.[key] !== undefined);
  if (keys.length === 0 || flowControl?.saturationDetector) return undefined;
  const taken = new Set(plugins.map(({ name, type }) => name || type));
  let name = DETECTOR;
  for (let n = 1; taken.has(name); n++) name = n === 1 ? "saturation-detector" : `saturation-detector-${n}`;
  return { name, keys };
}

/**
 * Returns the entries of `plugins` in their present form.
 * @param into receives the violations
 * @param warn called with the new form
 */
export function migratePlugins(
  envelope: Envelope,
  plan: MigrationPlan,
  registry: PluginRegistry,
  into: Violation[],
  warn: (path: Path, text: string) => void,
): PluginEntry[] {
  const entries: PluginEntry[] = (envelope.plugins ?? []).map((entry, at) => ({ ...entry, path: ["plugins", at] }));
  for (const { at, from, to } of plan.renamed) {
    const entry = entries[at]!;
    // Where the process knows the type under its old name too, that definition warns.
    if (registry.get(from) !== undefined) continue;
    const name = entry.name || from;
    const instead = JSON.stringify({ name, type: to });
    warn([...entry.path, "type"], `plugin type ${from} is deprecated and is now ${to}; write ${instead}`);
    entries[at] = { ...entry, name, type: to };
  }
  for (const { at, moves } of plan.producers) {
    const entry = entries[at]!;
    const moved = moveAll(moves, entry.path, into);
    const stay = Object.entries(entry.parameters ?? {}).filter(([key]) => !moves.some((move) => move.key === key));
    for (const { key, to } of moves)
      if (to !== undefined) warn([...entry.path, "parameters", key], `${key} is deprecated; write ${to}`);
    entries[at] = {
      ...entry,
      parameters: { ...Object.fromEntries(stay), ...moved.parameters },
      origins: moved.origins,
    };
  }
  if (plan.prefix !== undefined) {
    const { at, moves, noTokenLimit } = plan.prefix;
    const scorer = entries[at]!;
    const { parameters, origins } = moveAll(moves, scorer.path, into);
    if (noTokenLimit) parameters["maxPrefixTokensToMatch"] = 0;
    const stay = Object.entries(scorer.parameters ?? {}).filter(([key]) => !MOVED.has(key));
    const today = JSON.stringify({ type: PREFIX_PRODUCER, parameters });
    warn(scorer.path, `parameters of the prefix cache are deprecated on ${SCORER}; add the entry ${today} to plugins`);
    entries[at] = { ...scorer, parameters: Object.fromEntries(stay) };
    entries.push({ type: PREFIX_PRODUCER, name: undefined, parameters, path: scorer.path, origins });
  }
  if (plan.decider !== undefined) migrateDecider(plan.decider, entries, into, warn);
  if (plan.detector !== undefined) {
    const { name, keys } = plan.detector;
    const parameters = Object.fromEntries(keys.map((key) => [key, envelope.saturationDetector![key]]));
    const origins = new Map(keys.map((key) => [key, { path: ["saturationDetector", key], as: key }]));
    const entry = name === DETECTOR ? { type: DETECTOR, parameters } : { name, type: DETECTOR, parameters };
    const rest = `and name it in flowControl.saturationDetector.pluginRef`;
    const today = JSON.stringify(entry);
    warn(["saturationDetector"], `thresholds are deprecated here; add the entry ${today} to plugins ${rest}`);
    entries.push({ type: DETECTOR, name, parameters, path: ["saturationDetector"], origins });
  }
  return entries;
}

function moveAll(
  moves: readonly PluginMove[],
  entry: Path,
  into: Violation[],
): { readonly parameters: Record<string, unknown>; readonly origins: Map<string, ParameterOrigin> } {
  const parameters: Record<string, unknown> = {};
  const origins = new Map<string, ParameterOrigin>();
  for (const { key, to, value } of moves) {
    const path = [...entry, "parameters", key];
    if (to !== undefined) {
      parameters[to] = value;
      origins.set(to, { path, as: key });
    } else if (key === BLOCK_CHARACTERS && !isBlockLength(value) && value !== null)
      into.push({ path, problem: `must be a number of characters, 1 or more, got ${JSON.stringify(value)}` });
  }
  return { parameters, origins };
}
