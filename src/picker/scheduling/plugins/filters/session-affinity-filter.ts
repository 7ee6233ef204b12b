import { defineFilter } from "../../../../base/plugin/define.ts";
import { SESSION_BOUND } from "../../../../base/plugin/keys.ts";
import { sessionAffinityCompanions } from "../session-affinity.ts";
import { sessionAffinityParameters, sessionAffinityReferences } from "../session-affinity-parameters.ts";

/** scheduling 3.9.2 */
export const sessionAffinityFilter = defineFilter({
  type: "session-affinity-filter",
  describe: "Keeps only the endpoint that the request's session is bound to, where it is a candidate; otherwise all.",
  parameters: sessionAffinityParameters,
  requires: [SESSION_BOUND],
  companions: sessionAffinityCompanions,
  references: sessionAffinityReferences,
  create: () => ({
    filter({ candidates, keep }) {
      const bound = candidates.column(SESSION_BOUND);
      const { count } = candidates;
      let at = 0;
      while (at < count && bound[at] === 0) at++;
      if (at === count) return;
      keep.fill(0, 0, count);
      keep[at] = 1;
    },
  }),
});
