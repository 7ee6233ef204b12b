import type { PluginDefinition } from "../../../base/plugin/kinds.ts";
import { globalStrictFairnessPolicy, roundRobinFairnessPolicy } from "./fairness.ts";
import { edfOrderingPolicy, fcfsOrderingPolicy, sloDeadlineOrderingPolicy } from "./ordering.ts";
import { programAwareFairness } from "./program-aware.ts";
import { tokenDeficitFairnessPolicy } from "./token-deficit.ts";
import { priorityHoldbackPolicy, softReflectiveCeilingPolicy, staticUsageLimitPolicy } from "./usage-limits.ts";

/** The policies of flow control. */
export const FLOW_POLICIES: readonly PluginDefinition[] = [
  fcfsOrderingPolicy,
  edfOrderingPolicy,
  sloDeadlineOrderingPolicy,
  globalStrictFairnessPolicy,
  roundRobinFairnessPolicy,
  programAwareFairness,
  tokenDeficitFairnessPolicy,
  staticUsageLimitPolicy,
  priorityHoldbackPolicy,
  softReflectiveCeilingPolicy,
];
