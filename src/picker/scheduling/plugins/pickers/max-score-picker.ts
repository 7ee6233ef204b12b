import { z } from "zod";
import type { Random } from "../../../../base/clock/random.ts";
import { definePicker } from "../../../../base/plugin/define.ts";
import type { PickContext, Picker } from "../../../../base/plugin/kinds.ts";
import { maxNumOfEndpoints } from "./max-num-of-endpoints.ts";

/** Places that are put in order: as many as a scheduling result lists. */
const ORDERED = 8;

/** scheduling 3.8 */
export const maxScorePicker = definePicker({
  type: "max-score-picker",
  describe: "Picks the highest total; among equal ones each is as likely as the others.",
  parameters: z.strictObject({ maxNumOfEndpoints }),
  create: (parameters) => new MaxScorePicker(parameters.maxNumOfEndpoints),
});

/**
 * Orders the first eight places only, in two passes over the candidates: the first finds the eighth best total, the
 * second parts those above it from those equal to it. Chance is drawn where totals are equal and nowhere else.
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

  /** The total of the last place that is ordered. */
  #threshold(totals: Float64Array, count: number, places: number): number {
    const best = this.#best;
    best.fill(Number.NEGATIVE_INFINITY, 0, places);
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
