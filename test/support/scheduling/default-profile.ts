import type { Clock } from "../../../src/base/clock/clock.ts";
import type { Random } from "../../../src/base/clock/random.ts";
import { PluginRegistry } from "../../../src/base/plugin/registry.ts";
import { described, type MemberDescription, planOfOne } from "../../../src/picker/scheduling/build.ts";
import { SCHEDULING_PLUGINS } from "../../../src/picker/scheduling/plugins/index.ts";
import {
  activeRequestScorer,
  kvCacheUtilizationScorer,
  queueScorer,
  tokenLoadScorer,
} from "../../../src/picker/scheduling/plugins/load/load-scorers.ts";
import { loraAffinityScorer } from "../../../src/picker/scheduling/plugins/lora-affinity-scorer.ts";
import { maxScorePicker } from "../../../src/picker/scheduling/plugins/pickers.ts";
import { prefixCacheScorer } from "../../../src/picker/scheduling/plugins/prefix/prefix-cache-affinity.ts";
import type { SchedulingPlan } from "../../../src/picker/scheduling/profile.ts";

/** The profile in force when no configuration is given (docs/adr/0015 and 0017). */
function defaultProfilePlugins(): MemberDescription[] {
  return [
    described(queueScorer, 1),
    described(kvCacheUtilizationScorer, 1),
    described(prefixCacheScorer, 3),
    described(loraAffinityScorer, 4),
    described(activeRequestScorer, 3),
    described(tokenLoadScorer, 64, { queueThresholdTokens: 1_048_576 }),
    described(maxScorePicker),
  ];
}

/** A plan of the default profile with plugins of its own. */
export function buildDefaultPlan(clock: Clock, random: Random): SchedulingPlan {
  return planOfOne({
    plugins: defaultProfilePlugins(),
    registry: new PluginRegistry(SCHEDULING_PLUGINS),
    clock,
    random,
  });
}
