import type { PluginDefinition } from "../../../base/plugin/kinds.ts";
import { probabilisticAdmitter } from "./admitters/probabilistic-admitter.ts";
import { alwaysDisaggMultimodalDecider } from "./deciders/always-disagg-multimodal-decider.ts";
import { alwaysDisaggPdDecider } from "./deciders/always-disagg-pd-decider.ts";
import { prefixBasedPdDecider } from "./deciders/prefix-based-pd-decider.ts";
import { boundedLoadFilter } from "./filters/bounded-load-filter.ts";
import { byLabel } from "./filters/by-label.ts";
import { decisionTreeFilter } from "./filters/decision-tree-filter.ts";
import { headerBasedTestingFilter } from "./filters/header-based-testing-filter.ts";
import { byLabelSelector, labelSelectorFilter } from "./filters/label-selector-filter.ts";
import { prefixCacheAffinityFilter } from "./filters/prefix-cache-affinity-filter.ts";
import { decodeFilter, encodeFilter, prefillFilter } from "./filters/role-filters.ts";
import { sessionAffinityFilter } from "./filters/session-affinity-filter.ts";
import { utilizationFilter } from "./filters/utilization-filter.ts";
import { agentIdentity } from "./headers/agent-identity.ts";
import { destinationEndpointServedVerifier } from "./hooks/destination-endpoint-served-verifier.ts";
import { disaggHeadersHandler, prefillHeaderHandler } from "./hooks/disagg-headers-handler.ts";
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
import { sessionIdProducer } from "./producers/session-id-producer.ts";
import { tokenizer, tokenProducer } from "./producers/token-producer.ts";
import { disaggProfileHandler } from "./profiles/disagg-profile-handler.ts";
import { headerProfileHandler } from "./profiles/header-profile-handler.ts";
import { pdProfileHandler } from "./profiles/pd-profile-handler.ts";
import { singleProfileHandler } from "./profiles/single-profile-handler.ts";
import { activeRequestScorer } from "./scorers/active-request-scorer.ts";
import { contextLengthAware } from "./scorers/context-length-aware.ts";
import { headerLabelAffinityScorer } from "./scorers/header-label-affinity-scorer.ts";
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
  boundedLoadFilter,
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
  headerProfileHandler,
  disaggProfileHandler,
  pdProfileHandler,
  prefixBasedPdDecider,
  alwaysDisaggPdDecider,
  alwaysDisaggMultimodalDecider,
  decodeFilter,
  prefillFilter,
  encodeFilter,
  disaggHeadersHandler,
  prefillHeaderHandler,
  // The one that is made where none is configured comes first.
  tokenProducer,
  tokenizer,
  prefixCacheAffinityFilter,
  contextLengthAware,
  headerLabelAffinityScorer,
  probabilisticAdmitter,
  agentIdentity,
  sessionIdProducer,
];
