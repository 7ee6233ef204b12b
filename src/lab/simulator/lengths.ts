import type { Random } from "../../base/clock/random.ts";
import { gaussian } from "./latency.ts";

/** Cumulative probabilities of the six length ranges of an answer with a maximum from the caller (envoy-data-plane 5.1). */
const CUMULATIVE = [0.2, 0.5, 0.7, 0.75, 0.85, 1];
const RANGES = CUMULATIVE.length;
/** From this maximum on, ranges have this width, except the one below, which takes the rest. */
const FIXED_WIDTH = 20;
const FLEXIBLE_RANGE = 3;
const MEAN_TOKENS = 40;
const DEVIATION_TOKENS = 20;

/** The end of an answer: the model stopped, or the answer reached its limit. */
export type FinishReason = "stop" | "length";

/**
 * Number of tokens to generate.
 * @param maxTokens the caller's maximum, >= 1; undefined = none
 * @param room tokens left in the context window, >= 1
 * @param ignoreEos generate exactly the maximum
 * @returns 1 .. min(maxTokens, room)
 */
export function outputLength(random: Random, maxTokens: number | undefined, room: number, ignoreEos: boolean): number {
  const cap = Math.min(maxTokens ?? room, room);
  if (ignoreEos) return cap;
  if (maxTokens === undefined) {
    return Math.min(cap, Math.max(1, Math.round(MEAN_TOKENS + DEVIATION_TOKENS * gaussian(random))));
  }
  const chance = random.next();
  let range = 0;
  while (chance >= CUMULATIVE[range]!) range++;
  const low = rangeEnd(cap, range - 1);
  return Math.max(1, low + 1 + random.below(Math.max(1, rangeEnd(cap, range) - low)));
}

/** The longest length in range `index` of 0..5 under the maximum `cap`; 0 for index -1. */
export function rangeEnd(cap: number, index: number): number {
  if (cap <= RANGES * FIXED_WIDTH) return Math.floor((cap * (index + 1)) / RANGES);
  return index < FLEXIBLE_RANGE ? FIXED_WIDTH * (index + 1) : cap - FIXED_WIDTH * (RANGES - 1 - index);
}

/** Why an answer of `length` tokens ended. */
export function finishReason(length: number, maxTokens: number | undefined, room: number): FinishReason {
  return length >= Math.min(maxTokens ?? room, room) ? "length" : "stop";
}
