import { type WorkloadRequest, words } from "../../src/app/demo/workload.ts";
import { SeededRandom } from "../../src/clock/random.ts";

/** Requests whose prompts begin alike in groups. Lengths in tokens of the simulator; a range is uniform, both ends included. */
export interface SharedPrefixes {
  readonly seconds: number;
  /** Requests per second, on average; Poisson arrivals. */
  readonly rate: number;
  /** The rate in the first `seconds` of every `every` seconds instead. */
  readonly burst?: { readonly rate: number; readonly seconds: number; readonly every: number };
  readonly groups: number;
  /** Share of all requests that belong to the first group besides, 0..1. */
  readonly hot?: number;
  /** What all groups begin with, and what each has then. */
  readonly common?: number;
  readonly shared: number;
  /** What no other request has. */
  readonly own: readonly [number, number];
  readonly output: readonly [number, number];
}

/** The same seed gives the same list, word for word. */
export function sharedPrefixes(seed: number, shape: SharedPrefixes): WorkloadRequest[] {
  const { seconds, rate, burst, groups, hot = 0, common = 0, shared, own, output } = shape;
  const random = new SeededRandom(seed);
  const within = ([least, most]: readonly [number, number]): number => least + random.below(most - least + 1);
  const beginning = common === 0 ? "" : `${words(random, common)} `;
  const systems = Array.from({ length: groups }, () => beginning + words(random, shared));
  const highest = Math.max(rate, burst?.rate ?? 0);
  const list: WorkloadRequest[] = [];
  let at = 0;
  for (;;) {
    at += (-Math.log(1 - random.next()) * 1000) / highest;
    if (at >= seconds * 1000) return list;
    // Thinned to the rate of the moment.
    const bursting = burst !== undefined && (at / 1000) % burst.every < burst.seconds;
    if (random.next() * highest >= (bursting ? burst.rate : rate)) continue;
    const prefix = random.next() < hot ? 0 : random.below(groups);
    const request = { number: list.length, at, prefix, system: systems[prefix]! };
    list.push({ ...request, question: words(random, within(own)), maxTokens: within(output) });
  }
}
