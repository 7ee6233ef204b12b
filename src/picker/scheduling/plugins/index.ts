import type { PluginDefinition } from "../../../base/plugin/kinds.ts";
import { endpointAttributeFilter, endpointAttributeScorer } from "./attributes/endpoint-attribute.ts";
import { burstPrefixCacheProducer } from "./burst/burst-prefix-cache-producer.ts";
import { destinationEndpointServedVerifier, headerBasedTestingFilter } from "./conformance.ts";
import { contextLengthAware } from "./context-length-aware.ts";
import { dataParallelHeaderHandler, dataParallelProfileHandler } from "./data-parallel.ts";
import { decisionTreeFilter } from "./decision-tree-filter.ts";
import { alwaysDisaggMultimodalDecider, alwaysDisaggPdDecider, prefixBasedPdDecider } from "./disagg/deciders.ts";
import { disaggHeadersHandler, prefillHeaderHandler } from "./disagg/disagg-headers-handler.ts";
import { disaggProfileHandler, pdProfileHandler } from "./disagg/profile-handlers.ts";
import {
  byLabel,
  byLabelSelector,
  decodeFilter,
  encodeFilter,
  headerLabelAffinityScorer,
  labelSelectorFilter,
  prefillFilter,
} from "./labels.ts";
import { inflightLoadProducer } from "./load/inflight-load-producer.ts";
import { boundedLoadFilter, utilizationFilter } from "./load/load-filters.ts";
import {
  activeRequestScorer,
  kvCacheUtilizationScorer,
  loadAwareScorer,
  queueScorer,
  runningRequestsSizeScorer,
  tokenLoadScorer,
} from "./load/load-scorers.ts";
import { probabilisticAdmitter } from "./load/probabilistic-admitter.ts";
import { loraAffinityScorer } from "./lora-affinity-scorer.ts";
import { mmEmbeddingsCacheProducer, mmEmbeddingsCacheScorer } from "./media/mm-embeddings-cache.ts";
import {
  multiclusterApproxPrefixCacheProducer,
  multiclusterKvCacheUtilizationScorer,
  multiclusterPrefixCacheScorer,
  multiclusterQueueScorer,
  multiclusterSessionAffinityFilter,
} from "./multicluster.ts";
import { maxScorePicker, randomPicker, roundRobinPicker, weightedRandomPicker } from "./pickers.ts";
import { approxPrefixCacheProducer } from "./prefix/approx-prefix-cache-producer.ts";
import { noHitLruProducer, noHitLruScorer } from "./prefix/no-hit-lru.ts";
import { p2pSourceProducer } from "./prefix/p2p-source-producer.ts";
import { precisePrefixCacheProducer, precisePrefixCacheScorer } from "./prefix/precise-prefix-cache.ts";
import { prefixCacheAffinityFilter, prefixCacheScorer } from "./prefix/prefix-cache-affinity.ts";
import { headerProfileHandler, singleProfileHandler } from "./profile-handlers.ts";
import { requestAttributeReporter } from "./request-attribute-reporter.ts";
import { agentIdentity } from "./session/agent-identity.ts";
import { sessionAffinityFilter, sessionAffinityScorer } from "./session/session-affinity.ts";
import { sessionAffinityProducer } from "./session/session-affinity-producer.ts";
import { sessionIdProducer } from "./session/session-id-producer.ts";
import { sessionTokenHook } from "./session/session-token-hook.ts";
import { tokenizer, tokenProducer } from "./token-producer.ts";
import { topologyAffinityFilter, topologyAffinityScorer } from "./topology/topology-affinity.ts";
import { topologyExtractor } from "./topology/topology-extractor.ts";

/** All plugin types of this room. */
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
  precisePrefixCacheProducer,
  precisePrefixCacheScorer,
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
  // The default producer of its keys must be the first one.
  tokenProducer,
  tokenizer,
  prefixCacheAffinityFilter,
  contextLengthAware,
  headerLabelAffinityScorer,
  probabilisticAdmitter,
  agentIdentity,
  sessionIdProducer,
  dataParallelProfileHandler,
  dataParallelHeaderHandler,
  endpointAttributeFilter,
  endpointAttributeScorer,
  topologyExtractor,
  topologyAffinityFilter,
  topologyAffinityScorer,
  multiclusterQueueScorer,
  multiclusterKvCacheUtilizationScorer,
  multiclusterPrefixCacheScorer,
  multiclusterSessionAffinityFilter,
  multiclusterApproxPrefixCacheProducer,
  burstPrefixCacheProducer,
  p2pSourceProducer,
  mmEmbeddingsCacheProducer,
  mmEmbeddingsCacheScorer,
];
