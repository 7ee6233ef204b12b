import { defineScorer } from "../../../base/plugin/define.ts";
import type { PluginDefinition, PluginKind } from "../../../base/plugin/kinds.ts";
import { kvCacheUtilizationScorer, queueScorer } from "./load/load-scorers.ts";
import { approxPrefixCacheProducer } from "./prefix/approx-prefix-cache-producer.ts";
import { prefixCacheScorer } from "./prefix/prefix-cache-affinity.ts";
import { sessionAffinityFilter } from "./session/session-affinity.ts";

// Published types for endpoints that stand for clusters (scheduling 1.8, 3.9). They do what their counterparts for pods do: a
// cluster is an endpoint whose metrics are the means of its pool.

/** Scores as `queue-scorer` does. A cluster with unknown metrics has the longest queue that is known. */
export const multiclusterQueueScorer = defineScorer({
  type: "multicluster-queue-scorer",
  describe: "Prefers clusters with fewer waiting requests per endpoint, relative to the other candidates.",
  needs: "cluster-metrics",
  create: (parameters, context) => queueScorer.create(parameters, context),
});

/** Scores as `kv-cache-utilization-scorer` does. */
export const multiclusterKvCacheUtilizationScorer = defineScorer({
  type: "multicluster-kv-cache-utilization-scorer",
  describe: "Prefers clusters with more free KV cache: the score is the free share.",
  needs: "cluster-metrics",
  create: (parameters, context) => kvCacheUtilizationScorer.create(parameters, context),
});

function forClusters<K extends PluginKind>(definition: PluginDefinition<K>): PluginDefinition<K> {
  const { type } = definition;
  return {
    ...definition,
    type: `multicluster-${type}`,
    describe: `For clusters as endpoints what ${type} is for pods.`,
  };
}

export const multiclusterPrefixCacheScorer = forClusters(prefixCacheScorer);
export const multiclusterSessionAffinityFilter = forClusters(sessionAffinityFilter);
export const multiclusterApproxPrefixCacheProducer = forClusters(approxPrefixCacheProducer);
