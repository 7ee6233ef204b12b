import { z } from "zod";
import { definePicker } from "../../../../base/plugin/define.ts";
import type { PickContext, Picker } from "../../../../base/plugin/kinds.ts";
import { maxNumOfEndpoints } from "./max-num-of-endpoints.ts";

/** Not a published type: the yardstick that the demo and the benchmarks compare with. */
export const roundRobinPicker = definePicker({
  type: "round-robin-picker",
  describe: "Takes the candidates in turn and ignores their scores; for comparisons, not for production.",
  parameters: z.strictObject({ maxNumOfEndpoints }),
  create: (parameters) => new RoundRobinPicker(parameters.maxNumOfEndpoints),
});

class RoundRobinPicker implements Picker {
  readonly maxNumOfEndpoints: number;
  /** Whose turn it was, as a place among the candidates. */
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
