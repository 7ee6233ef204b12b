import type { Random } from "../clock/random.ts";

/** Milliseconds after the first failure, and the most after many. */
const SHORTEST = 50;
const LONGEST = 2000;

/** Milliseconds to wait after a failure with so many before it: they double up to 2 s, less up to a half by chance. */
export function pauseAfter(failures: number, random: Random): number {
  return Math.min(LONGEST, SHORTEST * 2 ** Math.min(failures, 16)) * (0.5 + random.next() / 2);
}
