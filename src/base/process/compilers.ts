import { setFlagsFromString } from "node:v8";
import { givenOptions, isMeasured } from "./v8-options.ts";

/**
 * Runs `work` while V8 leaves its last compiler, TurboFan, alone. Code that it has compiled before stays.
 *
 * An operator who chooses compilers in `NODE_OPTIONS` keeps them: then this only runs `work`.
 */
export async function withoutLastCompiler(work: () => Promise<void>): Promise<void> {
  if (!isMeasured() || choosesCompilers(givenOptions())) return work();
  // Without TurboFan, V8 takes Maglev for its last compiler, and leaves the count of calls out of the code that Maglev makes. Then
  // TurboFan would never compile these functions.
  setFlagsFromString("--force-emit-interrupt-budget-checks");
  setFlagsFromString("--no-turbofan");
  try {
    await work();
  } finally {
    setFlagsFromString("--turbofan");
    setFlagsFromString("--no-force-emit-interrupt-budget-checks");
  }
}

/** Whether these options of Node.js say which compilers V8 uses. */
export function choosesCompilers(options: readonly string[]): boolean {
  return options.some((option) => /(?:turbofan|turbolev|maglev|max[-_]opt|jitless|lite[-_]mode)\b/.test(option));
}
