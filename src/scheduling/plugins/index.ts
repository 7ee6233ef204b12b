import type { PluginDefinition } from "../../plugin/kinds.ts";
import { decisionTreeFilter } from "./filters/decision-tree-filter.ts";
import { headerBasedTestingFilter } from "./filters/header-based-testing-filter.ts";
import { destinationEndpointServedVerifier } from "./hooks/destination-endpoint-served-verifier.ts";
import { requestAttributeReporter } from "./hooks/request-attribute-reporter.ts";
import { maxScorePicker } from "./pickers/max-score-picker.ts";
import { randomPicker } from "./pickers/random-picker.ts";
import { roundRobinPicker } from "./pickers/round-robin-picker.ts";
import { approxPrefixCacheProducer } from "./producers/approx-prefix-cache-producer.ts";
import { inflightLoadProducer } from "./producers/inflight-load-producer.ts";
import { singleProfileHandler } from "./profiles/single-profile-handler.ts";
import { activeRequestScorer } from "./scorers/active-request-scorer.ts";
import { kvCacheUtilizationScorer } from "./scorers/kv-cache-utilization-scorer.ts";
import { loraAffinityScorer } from "./scorers/lora-affinity-scorer.ts";
import { prefixCacheScorer } from "./scorers/prefix-cache-scorer.ts";
import { queueScorer } from "./scorers/queue-scorer.ts";
import { runningRequestsSizeScorer } from "./scorers/running-requests-size-scorer.ts";

/** Every plugin type of this room. */
export const SCHEDULING_PLUGINS: readonly PluginDefinition[] = [
  queueScorer,
  kvCacheUtilizationScorer,
  runningRequestsSizeScorer,
  prefixCacheScorer,
  loraAffinityScorer,
  activeRequestScorer,
  approxPrefixCacheProducer,
  inflightLoadProducer,
  maxScorePicker,
  randomPicker,
  roundRobinPicker,
  singleProfileHandler,
  decisionTreeFilter,
  headerBasedTestingFilter,
  requestAttributeReporter,
  destinationEndpointServedVerifier,
];
