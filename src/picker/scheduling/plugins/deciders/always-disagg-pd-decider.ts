import { defineDecider } from "../../../../base/plugin/define.ts";

/** scheduling 3.7.1 */
export const alwaysDisaggPdDecider = defineDecider({
  type: "always-disagg-pd-decider",
  describe: "In favour of a stage for every request.",
  create: () => ({ decide: () => true }),
});
