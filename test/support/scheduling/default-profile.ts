import type { Clock } from "../../../src/base/clock/clock.ts";
import type { Random } from "../../../src/base/clock/random.ts";
import { PluginRegistry } from "../../../src/base/plugin/registry.ts";
import { described, type MemberDescription, planOfOne } from "../../../src/picker/scheduling/build.ts";
import { SCHEDULING_PLUGINS } from "../../../src/picker/scheduling/plugins/index.ts";
import { maxScorePicker } from "../../../src/picker/scheduling/plugins/pickers/max-score-picker.ts";
import { activeRequestScorer } from "../../../src/picker/scheduling/plugins/scorers/active-request-scorer.ts";
import { kvCacheUtilizationScorer } from "../../../src/picker/scheduling/plugins/scorers/kv-cache-utilization-scorer.ts";
import { loraAffinityScorer } from "../../../src/picker/scheduling/plugins/scorers/lora-affinity-scorer.ts";
import { prefixCacheScorer } from "../../../src/picker/scheduling/plugins/scorers/prefix-cache-scorer.ts";
import { queueScorer } from "../../../src/picker/scheduling/plugins/scorers/queue-scorer.ts";
import { tokenLoadScorer } from "../../../src/picker/scheduling/plugins/scorers/token-load-scorer.ts";
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
