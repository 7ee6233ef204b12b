import { z } from "zod";
import { definePicker } from "../../../../base/plugin/define.ts";
import type { PickContext, Picker } from "../../../../base/plugin/kinds.ts";
import { maxNumOfEndpoints } from "./max-num-of-endpoints.ts";

/** Places that are put in order: as many as a scheduling result lists. */
const ORDERED = 8;
/** Half a step of `Random.next`: keeps draws off 0, whose logarithm is none. */
const HALF_STEP = 2 ** -33;

/** scheduling 3.8 */
export const weightedRandomPicker = definePicker({
  type: "weighted-random-picker",
  describe: "Picks by chance, each candidate as likely as its total is high; where all totals are 0, as random-picker.",
  parameters: z.strictObject({ maxNumOfEndpoints }),
  create: (parameters) => new WeightedRandomPicker(parameters.maxNumOfEndpoints),
});

/**
 * Weighted sampling without replacement by keys U^(1/total), the highest first (Efraimidis and Spirakis, 2006). Kept as
 * logarithms, ln(U)/total, which have the same order and do not run out at small totals. One draw per candidate with a total
 * above 0; those without come behind, in random order.
 */
class WeightedRandomPicker implements Picker {
  readonly byChance = true;
  readonly maxNumOfEndpoints: number;
  /** By candidate. */
  #keys = new Float64Array(16);

  constructor(max: number) {
    this.maxNumOfEndpoints = max;
  }

  /** @returns how many had a chance to be first */
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
