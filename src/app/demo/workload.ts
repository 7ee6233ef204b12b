import { SeededRandom } from "../../clock/random.ts";

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

/** Shared prefixes, and tokens of each: all fit the caches of three servers of 768 blocks of 16, but not of one. */
export const PREFIXES = 12;
export const PREFIX_TOKENS = 2048;

const SYLLABLES = ["ka", "ro", "mi", "te", "lu", "so", "ne", "va", "di", "po", "gu", "zi", "ha", "be", "fo", "yu"];

function words(random: SeededRandom, count: number): string {
  let text = "";
  for (let i = 0; i < count; i++) {
    if (i > 0) text += " ";
    text += SYLLABLES[random.below(16)]! + SYLLABLES[random.below(16)]! + SYLLABLES[random.below(16)]!;
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
