import type { PluginDefinition } from "../../plugin/kinds.ts";
import { byLabel } from "./filters/by-label.ts";
import { decisionTreeFilter } from "./filters/decision-tree-filter.ts";
import { headerBasedTestingFilter } from "./filters/header-based-testing-filter.ts";
import { byLabelSelector, labelSelectorFilter } from "./filters/label-selector-filter.ts";
import { sessionAffinityFilter } from "./filters/session-affinity-filter.ts";
import { utilizationFilter } from "./filters/utilization-filter.ts";
import { destinationEndpointServedVerifier } from "./hooks/destination-endpoint-served-verifier.ts";
import { requestAttributeReporter } from "./hooks/request-attribute-reporter.ts";
import { sessionTokenHook } from "./hooks/session-token-hook.ts";
import { maxScorePicker } from "./pickers/max-score-picker.ts";
import { randomPicker } from "./pickers/random-picker.ts";
import { roundRobinPicker } from "./pickers/round-robin-picker.ts";
import { weightedRandomPicker } from "./pickers/weighted-random-picker.ts";
import { approxPrefixCacheProducer } from "./producers/approx-prefix-cache-producer.ts";
import { inflightLoadProducer } from "./producers/inflight-load-producer.ts";
import { noHitLruProducer } from "./producers/no-hit-lru-producer.ts";
import { sessionAffinityProducer } from "./producers/session-affinity-producer.ts";
import { singleProfileHandler } from "./profiles/single-profile-handler.ts";
import { activeRequestScorer } from "./scorers/active-request-scorer.ts";
import { kvCacheUtilizationScorer } from "./scorers/kv-cache-utilization-scorer.ts";
import { loadAwareScorer } from "./scorers/load-aware-scorer.ts";
import { loraAffinityScorer } from "./scorers/lora-affinity-scorer.ts";
import { noHitLruScorer } from "./scorers/no-hit-lru-scorer.ts";
import { prefixCacheScorer } from "./scorers/prefix-cache-scorer.ts";
import { queueScorer } from "./scorers/queue-scorer.ts";
import { runningRequestsSizeScorer } from "./scorers/running-requests-size-scorer.ts";
import { sessionAffinityScorer } from "./scorers/session-affinity-scorer.ts";
import { tokenLoadScorer } from "./scorers/token-load-scorer.ts";

/** Every plugin type of this room. */
export const SCHEDULING_PLUGINS: readonly PluginDefinition[] = [
  queueScorer,
  kvCacheUtilizationScorer,
  runningRequestsSizeScorer,
  prefixCacheScorer,
  loraAffinityScorer,
  activeRequestScorer,
  loadAwareScorer,
  tokenLoadScorer,
  noHitLruScorer,
  sessionAffinityScorer,
  approxPrefixCacheProducer,
  inflightLoadProducer,
  noHitLruProducer,
  sessionAffinityProducer,
  maxScorePicker,
  randomPicker,
  weightedRandomPicker,
  roundRobinPicker,
  singleProfileHandler,
  decisionTreeFilter,
  headerBasedTestingFilter,
  labelSelectorFilter,
  byLabelSelector,
  byLabel,
  utilizationFilter,
  sessionAffinityFilter,
  requestAttributeReporter,
  destinationEndpointServedVerifier,
  sessionTokenHook,
];
