import type { MetricTable } from "./registry.ts";

/** Upper bounds of Go's default histogram (scheduling 8.2, B-def). */
const USUAL = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;
const SKIPPED = ["cache_kind", "reason"] as const;
const POD = ["pod_identifier"] as const;

/** The index of KV-cache events and the events themselves (scheduling 8.8). */
export const KV_METRICS = {
  indexAdmissionsTotal: {
    type: "counter",
    name: "llm_d_epp_kv_cache_index_admissions_total",
    help: "Blocks that entered the index of KV-cache events.",
    twins: [{ name: "kvcache_index_admissions_total" }],
  },
  indexEvictionsTotal: {
    type: "counter",
    name: "llm_d_epp_kv_cache_index_evictions_total",
    help: "Blocks that left the index of KV-cache events, because an engine removed the block or the index was full.",
    twins: [{ name: "kvcache_index_evictions_total" }],
  },
  indexLookupRequestsTotal: {
    type: "counter",
    name: "llm_d_epp_kv_cache_index_lookup_requests_total",
    help: "Lookups of prompts in the index of KV-cache events.",
    twins: [{ name: "kvcache_index_lookup_requests_total" }],
  },
  indexMaxPodHitCountTotal: {
    type: "counter",
    name: "llm_d_epp_kv_cache_index_max_pod_hit_count_total",
    help: "Leading blocks of the prompt that the best endpoint holds, summed over all lookups.",
    twins: [{ name: "kvcache_index_max_pod_hit_count_total" }],
  },
  indexLookupHitsTotal: {
    type: "counter",
    name: "llm_d_epp_kv_cache_index_lookup_hits_total",
    help: "Lookups where at least one endpoint holds the first block.",
    twins: [{ name: "kvcache_index_lookup_hits_total" }],
  },
  indexLookupLatency: {
    type: "histogram",
    name: "llm_d_epp_kv_cache_index_lookup_latency_seconds",
    help: "Seconds of one lookup in the index of KV-cache events.",
    buckets: USUAL,
    twins: [{ name: "kvcache_index_lookup_latency_seconds" }],
  },
  dedupSuppressedTotal: {
    type: "counter",
    name: "llm_d_epp_kv_cache_events_dedup_removed_hashes_suppressed_total",
    help: "Removed hashes that another announcement keeps in the index.",
    twins: [{ name: "kvcache_kvevents_dedup_removed_hashes_suppressed_total" }],
  },
  dedupForwardedTotal: {
    type: "counter",
    name: "llm_d_epp_kv_cache_events_dedup_removed_hashes_forwarded_total",
    help: "Removed hashes that no announcement holds any more.",
    twins: [{ name: "kvcache_kvevents_dedup_removed_hashes_forwarded_total" }],
  },
  storesSkippedTotal: {
    type: "counter",
    name: "llm_d_epp_kv_cache_events_stores_skipped_total",
    help: "Events of stored blocks that Sluice cannot use, by kind of attention and by reason.",
    labels: SKIPPED,
    maxSeries: 128,
  },
  removalsSkippedTotal: {
    type: "counter",
    name: "llm_d_epp_kv_cache_events_removals_skipped_total",
    help: "Events of removed blocks that Sluice cannot use, by kind of attention and by reason.",
    labels: SKIPPED,
    maxSeries: 128,
  },
  activeSubscribers: {
    type: "gauge",
    name: "llm_d_epp_kv_cache_events_active_subscribers",
    help: "Publishers of KV-cache events to which the picker has subscribed.",
  },
  poolQueueDepth: {
    type: "gauge",
    name: "llm_d_epp_kv_cache_events_pool_queue_depth",
    help: "Messages of KV-cache events that wait for the end of a replay.",
  },
  poolCapacity: {
    type: "gauge",
    name: "llm_d_epp_kv_cache_events_pool_capacity",
    help: "Threads that read KV-cache events.",
  },
  reconnectionsTotal: {
    type: "counter",
    name: "llm_d_epp_kv_cache_events_subscriber_reconnections_total",
    help: "Lost connections to publishers of KV-cache events.",
    labels: POD,
  },
  messagesReceivedTotal: {
    type: "counter",
    name: "llm_d_epp_kv_cache_events_messages_received_total",
    help: "Messages of KV-cache events, by publisher.",
    labels: POD,
  },
  zmqErrorsTotal: {
    type: "counter",
    name: "llm_d_epp_kv_cache_events_zmq_errors_total",
    help: "Errors in the stream of KV-cache events of a publisher; `operation` is the kind, such as `connect`, `recv` or `malformed`.",
    labels: ["pod_identifier", "operation"],
  },
} as const satisfies MetricTable;
