import { setFlagsFromString } from "node:v8";
import { givenOptions, isMeasured } from "./v8-options.ts";

/** Calls after which V8 compiles a function, and calls that it waits once a function has met new types. */
const WARMING = ["--invocation-count-for-maglev=200", "--minimum-invocations-after-ic-update=200"];
/** V8's own numbers. */
const USUAL = ["--invocation-count-for-maglev=400", "--minimum-invocations-after-ic-update=500"];
/** Calls after which TurboFan compiles a function again; V8 has 3,000. */
const LAST = "--invocation-count-for-turbofan=30000";

/**
 * Runs `work`, which calls functions as real work will, so that V8 compiles them after half as many calls as usual. From then on,
 * V8's last compiler, TurboFan, waits for ten times as many calls as usual.
 *
 * An operator who chooses compilers in `NODE_OPTIONS` keeps them: then this only runs `work`.
 */
export async function whileWarming(work: () => Promise<void>): Promise<void> {
  if (!isMeasured() || choosesCompilers(givenOptions())) return work();
  for (const flag of [LAST, ...WARMING]) setFlagsFromString(flag);
  try {
    await work();
  } finally {
    for (const flag of USUAL) setFlagsFromString(flag);
  }
}

/** Whether these options of Node.js say which compilers V8 uses. */
export function choosesCompilers(options: readonly string[]): boolean {
  return options.some((option) => /(?:turbofan|turbolev|maglev|max[-_]opt|jitless|lite[-_]mode)\b/.test(option));
}
