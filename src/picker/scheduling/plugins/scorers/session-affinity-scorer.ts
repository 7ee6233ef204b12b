import { defineScorer } from "../../../../base/plugin/define.ts";
import { SESSION_BOUND } from "../../../../base/plugin/keys.ts";
import { sessionAffinityCompanions } from "../session-affinity.ts";
import { sessionAffinityParameters, sessionAffinityReferences } from "../session-affinity-parameters.ts";

/** scheduling 3.9.2 */
export const sessionAffinityScorer = defineScorer({
  type: "session-affinity-scorer",
  describe: "Prefers the endpoint that the request's session is bound to.",
  parameters: sessionAffinityParameters,
  requires: [SESSION_BOUND],
  companions: sessionAffinityCompanions,
  references: sessionAffinityReferences,
  create: () => ({
    score({ candidates, out }) {
      const bound = candidates.column(SESSION_BOUND);
      for (let i = 0; i < candidates.count; i++) out[i] = bound[i]!;
    },
  }),
});
