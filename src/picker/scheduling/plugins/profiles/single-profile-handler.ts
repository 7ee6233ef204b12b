import { Rejection } from "../../../../base/inference/outcomes.ts";
import { defineProfileHandler } from "../../../../base/plugin/define.ts";

const NOTHING: readonly string[] = [];

/** scheduling 3.7: what runs where the configuration names no handler. */
export const singleProfileHandler = defineProfileHandler({
  type: "single-profile-handler",
  describe: "Runs the only profile, once; its result is the answer.",
  create: () => ({
    pick: ({ profiles, results }) => (results.size === 0 ? profiles : NOTHING),
    processResults({ profiles, results }) {
      const name = profiles[0]!;
      const result = results.get(name);
      return result instanceof Rejection ? result : name;
    },
  }),
});
