import type { Random } from "../../base/clock/random.ts";

/** 32 hex digits that tell one submission from every other (async-processor 4.6). */
export function requestToken(random: Random): string {
  let token = "";
  while (token.length < 32) token += random.below(65_536).toString(16).padStart(4, "0");
  return token;
}

/**
 * A request token of 32 hex digits that sorts by age: milliseconds, number, chance. Redis orders entries of equal score by
 * their text, and the token is the first part of an envelope that differs. So of one producer's requests with one deadline the
 * first goes first (async-processor 5.2.3: ties are the normal case in a burst).
 * @param wall Unix milliseconds
 * @param number of the submission, counted up
 */
export function orderedToken(wall: number, number: number, random: Random): string {
  let token = hex(wall, 12) + hex(number % 0x1_0000, 4);
  while (token.length < 32) token += hex(random.below(0x1_0000), 4);
  return token;
}

function hex(value: number, digits: number): string {
  return Math.floor(value).toString(16).padStart(digits, "0").slice(-digits);
}
