import { z } from "zod";
import type { Random } from "../../../base/clock/random.ts";
import { definePicker } from "../../../base/plugin/define.ts";
import type { PickContext, Picker } from "../../../base/plugin/kinds.ts";

/** The parameter of all pickers (scheduling 3.8). */
const maxNumOfEndpoints = z
  .int()
  .default(1)
  .transform((value) => Math.max(1, value))
  .describe("Number of endpoints for the proxy, best first, at most 8; 0 or less counts as 1.");

/** Places that a picker puts in order: as many as a result lists. */
const ORDERED = 8;

/** scheduling 3.8 */
export const maxScorePicker = definePicker({
  type: "max-score-picker",
  describe: "Picks the highest total. Among equal totals, it picks at random.",
  parameters: z.strictObject({ maxNumOfEndpoints }),
  create: (parameters) => new MaxScorePicker(parameters.maxNumOfEndpoints),
});

/**
 * Orders only the first eight places, in two passes over the candidates. The first pass finds the eighth best total. The second
 * pass separates the totals above it from those equal to it. Only equal totals draw random numbers.
 */
class MaxScorePicker implements Picker {
  readonly maxNumOfEndpoints: number;
  readonly #best = new Float64Array(ORDERED);

  constructor(max: number) {
    this.maxNumOfEndpoints = max;
  }

  pick({ candidates, totals, random, order }: PickContext): number {
    const { count } = candidates;
    const places = Math.min(ORDERED, count);
    const threshold = this.#threshold(totals, count, places);
    // order = [above | equal | the rest], in place.
    let above = 0;
    let equal = 0;
    for (let i = 0; i < count; i++) {
      const index = order[i]!;
      const total = totals[index]!;
      if (total < threshold) continue;
      order[i] = order[equal]!;
      order[equal] = index;
      if (total > threshold) {
        order[equal] = order[above]!;
        order[above++] = index;
      }
      equal++;
    }
    sortDescending(order, above, totals);
    shuffleEquals(order, above, totals, random);
    for (let place = above; place < places; place++) {
      const other = place + random.below(equal - place);
      const index = order[other]!;
      order[other] = order[place]!;
      order[place] = index;
    }
    if (above === 0) return equal;
    let tied = 1;
    while (tied < above && totals[order[tied]!] === totals[order[0]!]) tied++;
    return tied;
  }

  /** Returns the total of the last ordered place. */
  #threshold(totals: Float64Array, count: number, places: number): number {
    const best = this.#best;
    for (let place = 0; place < places; place++) best[place] = Number.NEGATIVE_INFINITY;
    const last = places - 1;
    for (let i = 0; i < count; i++) {
      const total = totals[i]!;
      if (!(total > best[last]!)) continue;
      let at = last;
      for (; at > 0 && best[at - 1]! < total; at--) best[at] = best[at - 1]!;
      best[at] = total;
    }
    return best[last]!;
  }
}

/** Sorts the first `count`, at most seven, by total. */
function sortDescending(order: Uint32Array, count: number, totals: Float64Array): void {
  for (let i = 1; i < count; i++) {
    const index = order[i]!;
    let at = i;
    for (; at > 0 && totals[order[at - 1]!]! < totals[index]!; at--) order[at] = order[at - 1]!;
    order[at] = index;
  }
}

/** Shuffles each run of equal totals among the first `count`. */
function shuffleEquals(order: Uint32Array, count: number, totals: Float64Array, random: Random): void {
  for (let start = 0; start < count; ) {
    let end = start + 1;
    while (end < count && totals[order[end]!] === totals[order[start]!]) end++;
    for (let place = start; place < end - 1; place++) {
      const other = place + random.below(end - place);
      const index = order[other]!;
      order[other] = order[place]!;
      order[place] = index;
    }
    start = end;
  }
}

/** scheduling 3.8 */
export const randomPicker = definePicker({
  type: "random-picker",
  describe: "Picks any candidate with equal probability and ignores their scores.",
  parameters: z.strictObject({ maxNumOfEndpoints }),
  create: (parameters) => ({
    byChance: true,
    maxNumOfEndpoints: parameters.maxNumOfEndpoints,
    pick({ candidates, random, order }) {
      const { count } = candidates;
      const places = Math.min(ORDERED, count - 1);
      for (let place = 0; place < places; place++) {
        const other = place + random.below(count - place);
        const index = order[other]!;
        order[other] = order[place]!;
        order[place] = index;
      }
      return count;
    },
  }),
});

/** Half a step of `Random.next`: keeps draws above 0, because 0 has no logarithm. */
const HALF_STEP = 2 ** -33;

/** scheduling 3.8 */
export const weightedRandomPicker = definePicker({
  type: "weighted-random-picker",
  describe: "Picks at random, in proportion to the totals; if all totals are 0, like random-picker.",
  parameters: z.strictObject({ maxNumOfEndpoints }),
  create: (parameters) => new WeightedRandomPicker(parameters.maxNumOfEndpoints),
});

/**
 * Weighted sampling without replacement by keys U^(1/total), the highest first (Efraimidis and Spirakis, 2006). The keys are
 * logarithms, ln(U)/total: they have the same order and do not underflow at small totals. Each candidate with a total above 0
 * needs one draw. The others follow in random order.
 */
class WeightedRandomPicker implements Picker {
  readonly byChance = true;
  readonly maxNumOfEndpoints: number;
  /** By candidate. */
  #keys = new Float64Array(16);

  constructor(max: number) {
    this.maxNumOfEndpoints = max;
  }

  /** @returns the number of candidates that had a chance to be first */
  pick({ candidates, totals, random, order }: PickContext): number {
    const { count } = candidates;
    if (count > this.#keys.length) this.#keys = new Float64Array(2 ** Math.ceil(Math.log2(count)));
    const keys = this.#keys;
    let weighted = 0;
    for (let i = 0; i < count; i++) {
      const index = order[i]!;
      if (!(totals[index]! > 0)) continue;
      keys[index] = Math.log(random.next() + HALF_STEP) / totals[index]!;
      swap(order, i, weighted++);
    }
    const places = Math.min(ORDERED, count);
    for (let place = 0; place < Math.min(places, weighted); place++) {
      let best = place;
      for (let i = place + 1; i < weighted; i++) if (keys[order[i]!]! > keys[order[best]!]!) best = i;
      swap(order, place, best);
    }
    for (let place = weighted; place < places; place++) swap(order, place, place + random.below(count - place));
    return weighted > 0 ? weighted : count;
  }
}

function swap(order: Uint32Array, a: number, b: number): void {
  const index = order[a]!;
  order[a] = order[b]!;
  order[b] = index;
}

/** Not a published type. The demo and the benchmarks compare other policies with it. */
export const roundRobinPicker = definePicker({
  type: "round-robin-picker",
  describe: "Takes the candidates in turn and ignores their scores; for comparisons, not for production.",
  parameters: z.strictObject({ maxNumOfEndpoints }),
  create: (parameters) => new RoundRobinPicker(parameters.maxNumOfEndpoints),
});

class RoundRobinPicker implements Picker {
  readonly maxNumOfEndpoints: number;
  /** The place of the last pick among the candidates. */
  memory = -1;

  constructor(max: number) {
    this.maxNumOfEndpoints = max;
  }

  pick({ candidates: { count }, order }: PickContext): number {
    this.memory = (this.memory + 1) % count;
    for (let i = 0; i < count; i++) order[i] = (this.memory + i) % count;
    return 1;
  }
}
