import { z } from "zod";
import { CONTINUE, type DispatchGate, defineGate } from "../../base/plugin/gate.ts";

/** Lets everything pass: what a queue or pool without a gate has. It keeps nothing, so one serves all. */
export const OPEN_GATE: DispatchGate = {
  capacities: [],
  budget: async () => 1,
  apply: () => CONTINUE,
  // It refuses nothing, so it never keeps messages apart that other gates of a chain hold for alike.
  refusalKey: () => "",
};

export const constantGate = defineGate({
  type: "constant",
  describe: "Lets every message pass.",
  parameters: z.strictObject({}),
  create: () => OPEN_GATE,
});
