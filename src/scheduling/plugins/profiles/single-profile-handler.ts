import { defineProfileHandler } from "../../../plugin/define.ts";

/** scheduling 3.7: what the scheduler does anyway; the type exists so that configurations may name it. */
export const singleProfileHandler = defineProfileHandler({
  type: "single-profile-handler",
  describe: "Runs the only profile, once; its result is the answer.",
  create: () => ({}),
});
