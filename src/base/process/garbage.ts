import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { ResourceLimits } from "node:worker_threads";
import { givenOptions, isMeasured } from "./v8-options.ts";

/** Bytes of both halves of the young generation, where a picker stops its growth: by default V8 goes on to 48 MiB. */
const YOUNG = 12 << 20;
/** V8's own factor, and whether `limitYoungGeneration` has put another one in its place. */
const GROWTH_FACTOR = 2;
let areLimited = false;
/** MiB of each half of the young generation of a thread beside the main one. */
const THREAD_HALF = 4;

/**
 * Makes V8 collect garbage by the memory that the process really holds. By default buffers have a small limit of their own.
 * Large bodies reach it every 50 to 100 ms, and each time V8 marks the whole heap and finds little. With these flags V8 weighs
 * buffers and heap together and lets them grow by a share of the live size. Call before traffic comes.
 * @param growth percent of the live data by which both grow before V8 marks them. 300 is fast; 50 saves memory and costs 10 to
 *   25 % more CPU time (ADR 34)
 */
export function collectGarbageRarely(growth: number): void {
  if (!isMeasured()) return;
  setFlagsFromString("--external-memory-accounted-in-global-limit");
  growHeapBy(growth);
}

/**
 * Sets how far the heaps of all threads grow before V8 marks them. V8 reads it at the end of each mark, so it may change at any time.
 * @param growth percent of the live data
 */
export function growHeapBy(growth: number): void {
  if (isMeasured()) setFlagsFromString(`--heap-growing-percent=${growth}`);
}

/**
 * Stops the growth of the young generation if it has 12 MiB, for a process with little live data that changes slowly. Call it
 * several times during the start, and when the start is over: V8 reads the flag whenever the young generation would grow. V8 also
 * shrinks a young generation that has little to do; a later call lets it grow again.
 */
export function limitYoungGeneration(): void {
  if (!isMeasured()) return;
  const young = getHeapSpaceStatistics().find((space) => space.space_name === "new_space");
  const stops = stopsGrowth(young?.space_size ?? 0, givenOptions());
  if (stops === areLimited) return;
  areLimited = stops;
  setFlagsFromString(`--semi-space-growth-factor=${stops ? 1 : GROWTH_FACTOR}`);
}

/**
 * Gives the threads that start from now on a small young generation from their start, whether or not its growth is stopped.
 * @returns what such a thread starts with
 */
export function limitThreads(): ResourceLimits {
  if (!isMeasured() || choosesYoung(givenOptions())) return {};
  // V8 reads it when a thread makes its heap, so the heap of this thread stays as it is.
  setFlagsFromString(`--min-semi-space-size=${THREAD_HALF}`);
  return { maxYoungGenerationSizeMb: 3 * THREAD_HALF };
}

/**
 * Collects what the start of a process left: V8 would keep it until the heap has grown to several times its live data, which an
 * idle process never does. Call it once, before work comes: it takes up to a tenth of a second of CPU time.
 */
export function collectStart(): void {
  if (!isMeasured()) return;
  // Without the flag on the command line, V8 gives the function to contexts that are made after it is set.
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as NodeJS.GCFunction;
  setFlagsFromString("--no-expose-gc");
  // The other flavors leave V8 the pages that are free now.
  collect({ type: "major", execution: "sync", flavor: "last-resort" });
}

/**
 * Whether the young generation has its size. A size that the operator gives counts instead.
 * @param bytes of the young generation
 * @param options of Node.js
 */
export function stopsGrowth(bytes: number, options: readonly string[]): boolean {
  return bytes >= YOUNG && !choosesYoung(options);
}

function choosesYoung(options: readonly string[]): boolean {
  return options.some((option) => /semi[-_]space/.test(option));
}
