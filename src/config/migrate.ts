import type { Path } from "../document/document.ts";
import type { Violation } from "../document/validate.ts";
import type { PluginRegistry } from "../plugin/registry.ts";
import type { Envelope } from "./envelope.ts";

/** One entry of `plugins`, and where in the file it stands. */
export type PluginEntry = NonNullable<Envelope["plugins"]>[number] & { readonly path: Path };

const SCORER = "prefix-cache-scorer";
const PRODUCER = "approx-prefix-cache-producer";
/** Characters, where its successor `blockSizeTokens` counts tokens. */
const BLOCK_CHARACTERS = "hashBlockSize";
const CHARACTERS_PER_TOKEN = 4;
/** What the scorer of v1.0 or v1.5 took and its producer takes now (scheduling 3.9.1). */
const MOVED: ReadonlySet<string> = new Set([
  BLOCK_CHARACTERS,
  "autoTune",
  "blockSize",
  "blockSizeTokens",
  "maxPrefixBlocksToMatch",
  "maxPrefixTokensToMatch",
  "lruCapacityPerServer",
]);

/**
 * The entries of `plugins` as they would be written today: parameters of the prefix cache that stand on the scorer, as they did
 * in v1.0 and v1.5, go to a producer of their own. With a producer in the file they stay and are refused like any unknown key.
 * @param into receives what is wrong
 * @param warn told what to write instead
 */
export function migratePlugins(
  plugins: NonNullable<Envelope["plugins"]>,
  registry: PluginRegistry,
  into: Violation[],
  warn: (path: Path, text: string) => void,
): PluginEntry[] {
  const entries = plugins.map((entry, at) => ({ ...entry, path: ["plugins", at] }));
  const at = entries.findIndex(({ type, parameters }) => type === SCORER && hasMoved(parameters));
  const scorer = entries[at];
  if (scorer === undefined || registry.get(PRODUCER) === undefined) return entries;
  if (entries.some(({ type, name }) => type === PRODUCER || name === PRODUCER)) return entries;
  const stay: Record<string, unknown> = {};
  const go: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(scorer.parameters ?? {})) {
    if (!MOVED.has(key)) stay[key] = value;
    else if (key !== BLOCK_CHARACTERS) go[key] = value;
    else if (typeof value === "number" && value >= 1) go["blockSizeTokens"] = Math.ceil(value / CHARACTERS_PER_TOKEN);
    else {
      const problem = `must be a number of characters from 1 up, got ${JSON.stringify(value)}`;
      into.push({ path: [...scorer.path, "parameters", key], problem });
    }
  }
  // Then the limit in tokens was off unless given, and would win now.
  if ("maxPrefixBlocksToMatch" in go) go["maxPrefixTokensToMatch"] ??= 0;
  const today = JSON.stringify({ type: PRODUCER, parameters: go });
  warn(scorer.path, `parameters of the prefix cache are deprecated on ${SCORER}; give plugins the entry ${today}`);
  entries[at] = { ...scorer, parameters: stay };
  entries.push({ type: PRODUCER, name: undefined, parameters: go, path: scorer.path });
  return entries;
}

function hasMoved(parameters: PluginEntry["parameters"]): boolean {
  return Object.keys(parameters ?? {}).some((key) => MOVED.has(key));
}
