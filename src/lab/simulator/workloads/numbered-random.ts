import { SeededRandom } from "../../../base/clock/random.ts";

/**
 * A generator of its own for the number of a thing, so that what is drawn for it does not depend on when. For one `base`
 * different numbers below 2^32 have generators that start differently.
 * @param base 32 bits that stand for the run's seed
 * @param number 0 .. 2^32 - 1
 */
export function numberedRandom(base: number, number: number): SeededRandom {
  // Every step can be undone, so two numbers never meet (the finalizer of MurmurHash3).
  let state = (base + Math.imul(number, 0x9e3779b1)) >>> 0;
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return new SeededRandom(state ^ (state >>> 16));
}
