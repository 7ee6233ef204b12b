import { FAST, HIT_BYTES, RATIO, REQUEST_PROCESSING, RESPONSE_PROCESSING } from "./buckets.ts";
import type { MetricTable } from "./registry.ts";

const PLUGIN = ["plugin_name", "plugin_type"] as const;
const DECISION = [...PLUGIN, "model_name", "decision_type"] as const;

/** Metrics of decisions, plugins and the time spent here (scheduling 8.5). */
export const SCHEDULER_METRICS = {
  schedulerDuration: {
    type: "histogram",
    name: "llm_d_epp_scheduler_e2e_duration_seconds",
    help: "[ALPHA] Seconds of one scheduling decision.",
    labels: [],
    buckets: FAST,
    twins: [{ name: "inference_extension_scheduler_e2e_duration_seconds" }],
  },
  schedulerAttemptsTotal: {
    type: "counter",
    name: "llm_d_epp_scheduler_attempts_total",
    help: "[ALPHA] Scheduling decisions by result (success or failure) and the endpoint chosen.",
    labels: ["status", "target_model_name", "endpoint_name", "namespace", "port"],
    maxSeries: 4096,
    twins: [
      {
        name: "inference_extension_scheduler_attempts_total",
        labels: ["status", "target_model_name", { label: "pod_name", from: "endpoint_name" }, "namespace", "port"],
      },
    ],
  },
  pluginDuration: {
    type: "histogram",
    name: "llm_d_epp_plugin_duration_seconds",
    help: "[ALPHA] Seconds of one call of a plugin.",
    labels: ["extension_point", "plugin_type", "plugin_name"],
    buckets: FAST,
    twins: [{ name: "inference_extension_plugin_duration_seconds" }],
  },
  pluginFailuresTotal: {
    type: "counter",
    name: "sluice_plugin_failures_total",
    help: "Calls of plugins that threw; the decision went on without the plugin, unless it was a picker or a profile handler.",
    labels: ["extension_point", "plugin_type", "plugin_name"],
  },
  preparationsMissedTotal: {
    type: "counter",
    name: "sluice_preparations_missed_total",
    help: "Decisions without the data of a producer: it came too late, too many requests waited for it, or it failed.",
    labels: ["plugin_type", "plugin_name", "reason"],
  },
  pluginDataScopeViolationsTotal: {
    type: "counter",
    name: "llm_d_epp_plugin_data_scope_violations_total",
    help: "[ALPHA] Times that a plugin read or wrote data that it does not declare; its call failed.",
    labels: ["extension_point", "plugin_type", "plugin_name", "access"],
  },
  requestProcessing: {
    type: "histogram",
    name: "llm_d_epp_request_processing_duration_seconds",
    help: "[ALPHA] Seconds from the headers of a request until its body was handled, waiting in flow control included.",
    labels: [],
    buckets: REQUEST_PROCESSING,
  },
  responseProcessing: {
    type: "histogram",
    name: "llm_d_epp_response_processing_duration_seconds",
    help: "[ALPHA] Seconds spent on a response: for a stream the sum over its chunks, else from its headers to its end.",
    labels: [],
    buckets: RESPONSE_PROCESSING,
  },
  info: {
    type: "gauge",
    name: "llm_d_epp_info",
    help: "[ALPHA] Always 1; the labels describe the build.",
    labels: ["commit", "build_ref"],
    twins: [{ name: "inference_extension_info" }],
  },
  modelRewriteDecisionsTotal: {
    type: "counter",
    name: "llm_d_epp_model_rewrite_decisions_total",
    help: "[ALPHA] Model names that a rule of an InferenceModelRewrite replaced, by its name, the name asked for and the target drawn.",
    labels: ["model_rewrite_name", "model_name", "target_model"],
    maxSeries: 4096,
    twins: [{ name: "inference_extension_model_rewrite_decisions_total" }],
  },
  disaggDecisionTotal: {
    type: "counter",
    name: "llm_d_epp_disagg_decision_total",
    help: "[ALPHA] Requests by the stages of disaggregated serving that were chosen for them: decode-only, prefill-decode, encode-decode or encode-prefill-decode.",
    labels: DECISION,
    maxSeries: 4096,
    twins: [{ name: "llm_d_inference_scheduler_disagg_decision_total", labels: ["model_name", "decision_type"] }],
  },
  pdDecisionTotal: {
    type: "counter",
    name: "llm_d_epp_pd_decision_total",
    help: "[ALPHA] Requests by the stages that the deprecated pd-profile-handler chose for them: decode-only or prefill-decode.",
    labels: DECISION,
    maxSeries: 4096,
    twins: [{ name: "llm_d_inference_scheduler_pd_decision_total", labels: ["model_name", "decision_type"] }],
  },
  prefixIndexerSize: {
    type: "gauge",
    name: "llm_d_epp_prefix_indexer_size",
    help: "[ALPHA] Entries in the index of prompt prefixes.",
    labels: PLUGIN,
    twins: [{ name: "inference_extension_prefix_indexer_size", labels: [] }],
  },
  prefixIndexerHitRatio: {
    type: "histogram",
    name: "llm_d_epp_prefix_indexer_hit_ratio",
    help: "[ALPHA] Longest prefix found in the index as a share of the prompt, 0 to 1.",
    labels: PLUGIN,
    buckets: RATIO,
    twins: [{ name: "inference_extension_prefix_indexer_hit_ratio", labels: [] }],
  },
  prefixIndexerHitBytes: {
    type: "histogram",
    name: "llm_d_epp_prefix_indexer_hit_bytes",
    help: "[ALPHA] Bytes of the longest prefix found in the index.",
    labels: PLUGIN,
    buckets: HIT_BYTES,
    twins: [{ name: "inference_extension_prefix_indexer_hit_bytes", labels: [] }],
  },
  encoderCacheQueriesTotal: {
    type: "counter",
    name: "llm_d_epp_encoder_cache_queries_total",
    help: "[ALPHA] Images, sounds and videos of requests that were looked up, by kind.",
    labels: [...PLUGIN, "modality"],
  },
  encoderCacheHitsTotal: {
    type: "counter",
    name: "llm_d_epp_encoder_cache_hits_total",
    help: "[ALPHA] Those of them that an endpoint has probably encoded before, by endpoint and kind.",
    labels: [...PLUGIN, "pod", "modality"],
    maxSeries: 8192,
  },
  encoderCacheHitRatio: {
    type: "histogram",
    name: "llm_d_epp_encoder_cache_hit_ratio",
    help: "[ALPHA] Share of a request's images, sounds and videos that an endpoint has probably encoded before, once for each candidate.",
    labels: PLUGIN,
    buckets: RATIO,
  },
} as const satisfies MetricTable;
