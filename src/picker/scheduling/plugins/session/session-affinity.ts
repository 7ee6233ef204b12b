import { defineFilter, defineScorer } from "../../../../base/plugin/define.ts";
import { SESSION_BOUND } from "../../../../base/plugin/keys.ts";
import type { PluginCompanion } from "../../../../base/plugin/kinds.ts";
import {
  type SessionAffinityParameters,
  sessionAffinityParameters,
  sessionAffinityReferences,
} from "./session-affinity-parameters.ts";
import { sessionAffinityProducer } from "./session-affinity-producer.ts";
import { sessionTokenHook } from "./session-token-hook.ts";

/**
 * Returns the plugins that the scorer and the filter need: the memory and, where answers carry tokens, the hook that writes
 * them.
 */
function sessionAffinityCompanions(parameters: SessionAffinityParameters): readonly PluginCompanion[] {
  const { strategy, encodedEndpointHeaderConfig, profileName } = parameters;
  const producer = { definition: sessionAffinityProducer, parameters };
  if (strategy === "session_id") return [producer];
  return [
    producer,
    { definition: sessionTokenHook, parameters: { header: encodedEndpointHeaderConfig.header, profileName } },
  ];
}

/** scheduling 3.9.2 */
export const sessionAffinityFilter = defineFilter({
  type: "session-affinity-filter",
  describe: "Keeps only the endpoint of the request's session, if it is a candidate; otherwise all.",
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

/** scheduling 3.9.2 */
export const sessionAffinityScorer = defineScorer({
  type: "session-affinity-scorer",
  describe: "Prefers the endpoint of the request's session.",
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
