import { z } from "zod";
import { definePicker } from "../../../../base/plugin/define.ts";
import { maxNumOfEndpoints } from "./max-num-of-endpoints.ts";

/** Places that are drawn: as many as a scheduling result lists. */
const DRAWN = 8;

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
      const places = Math.min(DRAWN, count - 1);
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
