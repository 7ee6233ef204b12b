import { z } from "zod";
import { definePicker } from "../../../plugin/define.ts";
import { maxNumOfEndpoints } from "./max-num-of-endpoints.ts";

/** Not a published type: the yardstick that the demo and the benchmarks compare with. */
export const roundRobinPicker = definePicker({
  type: "round-robin-picker",
  describe: "Takes the candidates in turn and ignores their scores; for comparisons, not for production.",
  parameters: z.strictObject({ maxNumOfEndpoints }),
  create: (parameters) => {
    let turn = -1;
    return {
      maxNumOfEndpoints: parameters.maxNumOfEndpoints,
      pick({ candidates, order }) {
        const { count } = candidates;
        turn = (turn + 1) % count;
        for (let i = 0; i < count; i++) order[i] = (turn + i) % count;
        return 1;
      },
    };
  },
});
