import { setFlagsFromString } from "node:v8";
import { givenOptions, isMeasured } from "./v8-options.ts";

/**
 * Calls after which Maglev compiles a function, calls for which V8 waits after a function has met new types, and calls
 * after which TurboFan compiles again what Maglev has compiled.
 */
const COUNTS = ["invocation-count-for-maglev", "minimum-invocations-after-ic-update", "invocation-count-for-turbofan"];
const WARMING = [200, 200, 30_000];
/** V8's own numbers. */
const USUAL = [400, 500, 3000];

/**
 * Runs `work`, which calls functions as real work will. Maglev compiles them after half as many calls as usual, and TurboFan, V8's
 * last compiler, waits for ten times as many: then it does not work beside the first requests. What V8 compiles later has the usual
 * numbers.
 *
 * An operator who chooses compilers in `NODE_OPTIONS` keeps them: then this only runs `work`.
 */
export async function whileWarming(work: () => Promise<void>): Promise<void> {
  if (!isMeasured() || choosesCompilers(givenOptions())) return work();
  setCounts(WARMING);
  try {
    await work();
  } finally {
    setCounts(USUAL);
  }
}

function setCounts(counts: readonly number[]): void {
  for (const [i, name] of COUNTS.entries()) setFlagsFromString(`--${name}=${counts[i]}`);
}

/** Whether these options of Node.js say which compilers V8 uses. */
export function choosesCompilers(options: readonly string[]): boolean {
  return options.some((option) => /(?:turbofan|turbolev|maglev|max[-_]opt|jitless|lite[-_]mode)\b/.test(option));
}
