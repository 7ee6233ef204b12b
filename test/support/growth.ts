import { residentMiB } from "./process.ts";

/** Rounds in which memory may find its size. */
const ROUNDS = 3;

/**
 * What a process grows by, MiB of resident memory, in the best of up to three rounds of the same work. A heap takes its size in
 * the first ones, when and how far is V8's business and depends on how busy the machine is; a leak grows in each.
 * @param enough MiB at which no further round is made
 * @param round told its number, from 0 up
 */
export async function growthMiB(
  pid: number,
  enough: number,
  round: (number: number) => Promise<void>,
): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let number = 0; number < ROUNDS && least > enough; number++) {
    const before = await residentMiB(pid);
    await round(number);
    least = Math.min(least, (await residentMiB(pid)) - before);
  }
  return least;
}
