import { SeededRandom } from "../../base/clock/random.ts";

/** One request of the demo's list. */
export interface WorkloadRequest {
  readonly number: number;
  /** Milliseconds after the start of the half. */
  readonly at: number;
  /** Which shared prefix it begins with. */
  readonly prefix: number;
  readonly system: string;
  readonly question: string;
  readonly maxTokens: number;
}

export interface WorkloadOptions {
  readonly seed: number;
  readonly durationMs: number;
  readonly ratePerSecond: number;
}

/** Requests per second and server: a server works at a third of its slots. */
const RATE_PER_SERVER = 8;
/** The end of a half in which nothing new is sent, so that it ends with nothing in flight. */
const TAIL_MS = 1200;

/** The list of one half of the demo. @param halfMs length of the half */
export function demoWorkload(seed: number, halfMs: number, servers: number): WorkloadRequest[] {
  return makeWorkload({ seed, durationMs: halfMs - TAIL_MS, ratePerSecond: RATE_PER_SERVER * servers });
}

/** Shared prefixes, and tokens of each: all fit the caches of three servers of 768 blocks of 16, but not of one. */
export const PREFIXES = 12;
export const PREFIX_TOKENS = 2048;

const CONSONANTS = "bdfghklmnprstvz";
const VOWELS = "aeiou";

/** Words of three letters: with the space four bytes to a token, which is also what the prefix index assumes of text. */
export function words(random: SeededRandom, count: number): string {
  let text = "";
  for (let i = 0; i < count; i++) {
    if (i > 0) text += " ";
    text += CONSONANTS[random.below(15)]! + VOWELS[random.below(5)]! + CONSONANTS[random.below(15)]!;
  }
  return text;
}

/** A seeded list of requests with Poisson arrivals: the same seed gives the same list, word for word. */
export function makeWorkload({ seed, durationMs, ratePerSecond }: WorkloadOptions): WorkloadRequest[] {
  const random = new SeededRandom(seed);
  const systems = Array.from({ length: PREFIXES }, () => words(random, PREFIX_TOKENS));
  const list: WorkloadRequest[] = [];
  let at = 0;
  for (let number = 0; ; number++) {
    at += (-Math.log(1 - random.next()) * 1000) / ratePerSecond;
    if (at >= durationMs) return list;
    const prefix = random.below(PREFIXES);
    list.push({
      number,
      at,
      prefix,
      system: systems[prefix]!,
      question: words(random, 16 + random.below(33)),
      maxTokens: 24 + random.below(41),
    });
  }
}
