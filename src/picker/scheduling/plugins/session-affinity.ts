import type { PluginCompanion } from "../../../base/plugin/kinds.ts";
import { sessionTokenHook } from "./hooks/session-token-hook.ts";
import { sessionAffinityProducer } from "./producers/session-affinity-producer.ts";
import type { SessionAffinityParameters } from "./session-affinity-parameters.ts";

/** What scorer and filter bring along: the memory and, where answers carry tokens, what writes them. */
export function sessionAffinityCompanions(parameters: SessionAffinityParameters): readonly PluginCompanion[] {
  const { strategy, encodedEndpointHeaderConfig, profileName } = parameters;
  const producer = { definition: sessionAffinityProducer, parameters };
  if (strategy === "session_id") return [producer];
  return [
    producer,
    { definition: sessionTokenHook, parameters: { header: encodedEndpointHeaderConfig.header, profileName } },
  ];
}
