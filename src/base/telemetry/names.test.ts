import { describe, expect, it } from "vitest";
import { slowRead } from "../../../test/support/slow-exposition.ts";
import { render } from "./exposition.ts";
import { createMetrics } from "./names.ts";
import { type AnyFamily, MetricsRegistry } from "./registry.ts";

const M = "model_name,target_model_name";
const M4 = "fairness_id,model_name,priority,target_model_name";
const DISAGG = "decision_type,model_name,plugin_name,plugin_type";
const ATTEMPT = "namespace,port,status,target_model_name";
const QUEUED = "fairness_id,inference_pool,model_name,priority,target_model_name";
const IN_FLIGHT = "endpoint_name,fairness_id,namespace,priority,producer_name";

/** Name, type and sorted labels of every metric, written down from scheduling 8.3-8.5 apart from the table under test. */
const EXPECTED: readonly (readonly [name: string, type: string, labels: string])[] = [
  ["llm_d_epp_request_total", "counter", M4],
  ["inference_objective_request_total", "counter", "model_name,priority,target_model_name"],
  ["inference_model_request_total", "counter", M],
  ["llm_d_epp_request_error_total", "counter", `error_code,${M4}`],
  ["inference_objective_request_error_total", "counter", `error_code,${M}`],
  ["inference_model_request_error_total", "counter", `error_code,${M}`],
  ["llm_d_epp_request_duration_seconds", "histogram", M4],
  ["inference_objective_request_duration_seconds", "histogram", M],
  ["inference_model_request_duration_seconds", "histogram", M],
  ["llm_d_epp_request_size_bytes", "histogram", M4],
  ["inference_objective_request_sizes", "histogram", M],
  ["inference_model_request_sizes", "histogram", M],
  ["llm_d_epp_response_size_bytes", "histogram", M4],
  ["inference_objective_response_sizes", "histogram", M],
  ["inference_model_response_sizes", "histogram", M],
  ["llm_d_epp_request_input_tokens", "histogram", M4],
  ["inference_objective_input_tokens", "histogram", M],
  ["inference_model_input_tokens", "histogram", M],
  ["llm_d_epp_request_output_tokens", "histogram", M4],
  ["inference_objective_output_tokens", "histogram", M],
  ["inference_model_output_tokens", "histogram", M],
  ["llm_d_epp_request_cached_tokens", "histogram", M4],
  ["inference_objective_prompt_cached_tokens", "histogram", M],
  ["llm_d_epp_request_running", "gauge", M4],
  ["inference_objective_running_requests", "gauge", "model_name"],
  ["inference_model_running_requests", "gauge", "model_name"],
  ["llm_d_epp_request_ntpot_seconds", "histogram", M4],
  ["inference_objective_normalized_time_per_output_token_seconds", "histogram", M],
  ["inference_model_normalized_time_per_output_token_seconds", "histogram", M],
  ["llm_d_epp_request_ttft_seconds", "histogram", M4.replace("target", "streaming,target")],
  ["llm_d_epp_request_streaming_tpot_seconds", "histogram", M4],
  ["llm_d_epp_request_streaming_itl_seconds", "histogram", M4],
  ["llm_d_epp_average_kv_cache_utilization", "gauge", "name"],
  ["inference_pool_average_kv_cache_utilization", "gauge", "name"],
  ["llm_d_epp_average_queue_size", "gauge", "name"],
  ["inference_pool_average_queue_size", "gauge", "name"],
  ["llm_d_epp_average_running_requests", "gauge", "name"],
  ["inference_pool_average_running_requests", "gauge", "name"],
  ["llm_d_epp_std_dev_kv_cache_utilization", "gauge", "name"],
  ["llm_d_epp_std_dev_queue_size", "gauge", "name"],
  ["llm_d_epp_std_dev_running_requests", "gauge", "name"],
  ["llm_d_epp_ready_endpoints", "gauge", "name"],
  ["inference_pool_ready_pods", "gauge", "name"],
  ["llm_d_epp_per_endpoint_queue_size", "gauge", "model_server_endpoint,name"],
  ["inference_pool_per_pod_queue_size", "gauge", "model_server_pod,name"],
  ["llm_d_epp_scheduler_e2e_duration_seconds", "histogram", ""],
  ["inference_extension_scheduler_e2e_duration_seconds", "histogram", ""],
  ["llm_d_epp_scheduler_attempts_total", "counter", `endpoint_name,${ATTEMPT}`],
  ["inference_extension_scheduler_attempts_total", "counter", ATTEMPT.replace("port,", "pod_name,port,")],
  ["llm_d_epp_plugin_duration_seconds", "histogram", "extension_point,plugin_name,plugin_type"],
  ["inference_extension_plugin_duration_seconds", "histogram", "extension_point,plugin_name,plugin_type"],
  ["llm_d_epp_plugin_data_scope_violations_total", "counter", "access,extension_point,plugin_name,plugin_type"],
  ["llm_d_epp_request_processing_duration_seconds", "histogram", ""],
  ["llm_d_epp_response_processing_duration_seconds", "histogram", ""],
  ["llm_d_epp_info", "gauge", "build_ref,commit"],
  ["inference_extension_info", "gauge", "build_ref,commit"],
  ["llm_d_epp_model_rewrite_decisions_total", "counter", "model_name,model_rewrite_name,target_model"],
  ["inference_extension_model_rewrite_decisions_total", "counter", "model_name,model_rewrite_name,target_model"],
  ["llm_d_epp_datalayer_poll_errors_total", "counter", "source_type"],
  ["llm_d_inference_scheduler_datalayer_poll_errors_total", "counter", "source_type"],
  ["llm_d_epp_datalayer_extract_errors_total", "counter", "extractor_type,source_type"],
  ["llm_d_inference_scheduler_datalayer_extract_errors_total", "counter", "extractor_type,source_type"],
  ["llm_d_epp_disagg_decision_total", "counter", DISAGG],
  ["llm_d_inference_scheduler_disagg_decision_total", "counter", "decision_type,model_name"],
  ["llm_d_epp_pd_decision_total", "counter", DISAGG],
  ["llm_d_inference_scheduler_pd_decision_total", "counter", "decision_type,model_name"],
  ["llm_d_epp_encoder_cache_queries_total", "counter", "modality,plugin_name,plugin_type"],
  ["llm_d_epp_encoder_cache_hits_total", "counter", "modality,plugin_name,plugin_type,pod"],
  ["llm_d_epp_encoder_cache_hit_ratio", "histogram", "plugin_name,plugin_type"],
  ["llm_d_epp_prefix_indexer_size", "gauge", "plugin_name,plugin_type"],
  ["inference_extension_prefix_indexer_size", "gauge", ""],
  ["llm_d_epp_prefix_indexer_hit_ratio", "histogram", "plugin_name,plugin_type"],
  ["inference_extension_prefix_indexer_hit_ratio", "histogram", ""],
  ["llm_d_epp_prefix_indexer_hit_bytes", "histogram", "plugin_name,plugin_type"],
  ["inference_extension_prefix_indexer_hit_bytes", "histogram", ""],
  ["llm_d_epp_inflight_requests", "gauge", IN_FLIGHT],
  ["llm_d_epp_inflight_tokens", "gauge", IN_FLIGHT],
  ["llm_d_epp_flow_control_pool_saturation", "gauge", "inference_pool,stage"],
  ["inference_extension_flow_control_pool_saturation", "gauge", "inference_pool,stage"],
  ["llm_d_epp_flow_control_stale_endpoints", "gauge", "detector"],
  [
    "llm_d_epp_flow_control_request_queue_duration_seconds",
    "histogram",
    QUEUED.replace("priority", "outcome,priority"),
  ],
  [
    "inference_extension_flow_control_request_queue_duration_seconds",
    "histogram",
    QUEUED.replace("priority", "outcome,priority"),
  ],
  ["llm_d_epp_flow_control_dispatch_cycle_duration_seconds", "histogram", ""],
  ["inference_extension_flow_control_dispatch_cycle_duration_seconds", "histogram", ""],
  ["llm_d_epp_flow_control_request_enqueue_duration_seconds", "histogram", "fairness_id,outcome,priority"],
  ["inference_extension_flow_control_request_enqueue_duration_seconds", "histogram", "fairness_id,outcome,priority"],
  ["llm_d_epp_flow_control_queue_size", "gauge", QUEUED],
  ["inference_extension_flow_control_queue_size", "gauge", QUEUED],
  ["llm_d_epp_flow_control_queue_bytes", "gauge", QUEUED],
  ["inference_extension_flow_control_queue_bytes", "gauge", QUEUED],
  ["llm_d_epp_flow_control_capacity_utilization_requests", "gauge", "inference_pool,priority"],
  ["llm_d_epp_flow_control_capacity_utilization_bytes", "gauge", "inference_pool,priority"],
  ["llm_d_epp_flow_control_global_capacity_utilization_requests", "gauge", "inference_pool"],
  ["llm_d_epp_flow_control_global_capacity_utilization_bytes", "gauge", "inference_pool"],
  ["llm_d_epp_flow_control_requests_total", "counter", "inference_pool,outcome,priority"],
  ["llm_d_epp_flow_control_revocations_issued_total", "counter", "inference_pool,priority"],
  ["llm_d_epp_flow_control_revocations_total", "counter", "inference_pool,outcome"],
  ["llm_d_epp_flow_control_reclaim_target", "gauge", "inference_pool"],
  ["llm_d_epp_flow_control_pending_reclaim", "gauge", "inference_pool"],
  ["llm_d_epp_program_aware_jains_fairness_index", "gauge", ""],
  ["llm_d_epp_program_aware_avg_wait_time_milliseconds", "gauge", "program_id"],
  ["llm_d_epp_program_aware_attained_service_tokens", "gauge", "program_id"],
  ["llm_d_epp_flow_control_revocation_confirmation_seconds", "histogram", "inference_pool"],
  ["sluice_flow_control_queue_tokens", "gauge", QUEUED],
  ["sluice_flow_control_predicted_wait_seconds", "gauge", "inference_pool"],
  ["sluice_endpoint_state", "gauge", "endpoint,state"],
  ["sluice_body_budget_bytes", "gauge", "pool"],
  ["sluice_body_budget_limit_bytes", "gauge", "pool"],
  ["sluice_body_budget_paused", "gauge", ""],
  ["sluice_buffered_bytes", "gauge", ""],
  ["sluice_extproc_streams", "gauge", ""],
  ["sluice_extproc_resets_total", "counter", ""],
  ["sluice_extproc_connections", "gauge", ""],
  ["sluice_extproc_refused_total", "counter", "kind"],
  ["sluice_extproc_notices_total", "counter", "kind"],
  ["sluice_gateway_retries_total", "counter", "cause"],
  ["sluice_gateway_access_total", "counter", "result"],
  ["sluice_gateway_key_requests_total", "counter", "key"],
  ["sluice_exchanges_total", "counter", "outcome"],
  ["sluice_request_log_dropped_total", "counter", ""],
  ["sluice_limit", "gauge", "kind,rule"],
  ["sluice_limit_used", "gauge", "kind,rule"],
  ["sluice_limit_refused_total", "counter", "kind,rule"],
  ["sluice_limit_counters", "gauge", ""],
  ["sluice_limit_counters_lost_total", "counter", ""],
  ["sluice_limits_shared", "gauge", "server"],
  ["sluice_limits_file_refused", "gauge", ""],
  ["sluice_plugin_failures_total", "counter", "extension_point,plugin_name,plugin_type"],
  ["sluice_prefix_cache_error_ratio", "histogram", "by,target_model_name"],
  ["sluice_prefix_cache_tokens_total", "counter", "by,target_model_name"],
  ["sluice_prefix_corrected_blocks_total", "counter", "plugin_name,plugin_type"],
  ["sluice_prefix_corrections_total", "counter", "plugin_name,plugin_type"],
  ["sluice_preparations_missed_total", "counter", "plugin_name,plugin_type,reason"],
  ["sluice_config_info", "gauge", "hash"],
  ["sluice_config_reloads_total", "counter", "result"],
  ["sluice_config_refused", "gauge", ""],
  ["sluice_gateway_file_reloads_total", "counter", "result"],
  ["sluice_gateway_file_refused", "gauge", ""],
  ["sluice_gateway_file_restart_keys", "gauge", ""],
  ["sluice_kubernetes_heard_age_seconds", "gauge", "kind"],
  ["sluice_kubernetes_objects", "gauge", "kind"],
  ["sluice_kubernetes_lists_total", "counter", "kind"],
  ["sluice_kubernetes_failures_total", "counter", "kind"],
];

/** The `le` texts of histograms, by a name that has each set (scheduling 8.2). */
const BUCKETS: Readonly<Record<string, string>> = {
  llm_d_epp_request_duration_seconds:
    "0.005 0.025 0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3 4 5 6 8 10 15 20 30 45 60 120 180 240 300 360 480 600 900 1200 1800 2700 3600",
  llm_d_epp_request_size_bytes:
    "64 128 256 512 1024 2048 4096 8192 16384 32768 65536 131072 262144 524288 1.048576e+06 2.097152e+06 4.194304e+06 " +
    "8.388608e+06 1.6777216e+07 3.3554432e+07 6.7108864e+07 1.34217728e+08 2.68435456e+08 5.36870912e+08 1.073741824e+09",
  inference_model_response_sizes: "1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 32778 65536",
  inference_objective_input_tokens:
    "1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 32778 65536 131072 262144 524288 1.048576e+06",
  llm_d_epp_request_output_tokens: "1 8 16 32 64 128 256 512 1024 2048 4096 8192",
  llm_d_epp_request_ntpot_seconds: "0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10",
  llm_d_epp_request_ttft_seconds: "0.005 0.025 0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3 4 5 6 8 10 15 20 30 45 60 120",
  llm_d_epp_request_streaming_tpot_seconds:
    "0.0005 0.00205 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.125 0.15 0.2 0.3 0.4 0.5 0.6 0.8 1 2",
  llm_d_epp_request_streaming_itl_seconds: "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.15 0.2 0.3 0.5 0.75 1 2",
  llm_d_epp_plugin_duration_seconds: "0.0001 0.0002 0.0005 0.001 0.002 0.005 0.01 0.02 0.05 0.1",
  llm_d_epp_flow_control_request_queue_duration_seconds:
    "0.0001 0.0005 0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60",
  inference_extension_flow_control_dispatch_cycle_duration_seconds:
    "0.0001 0.0002 0.0005 0.001 0.002 0.005 0.01 0.02 0.05 0.1",
  inference_extension_flow_control_request_enqueue_duration_seconds:
    "0.0001 0.0002 0.0005 0.001 0.002 0.005 0.01 0.02 0.05 0.1",
  llm_d_epp_prefix_indexer_hit_ratio: "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1",
  inference_extension_prefix_indexer_hit_bytes: "0 16 32 64 128 256 512 1024 2048 4096 8192 16384 32768 65536",
  llm_d_epp_request_processing_duration_seconds:
    "0.0005 0.001 0.002 0.005 0.01 0.015 0.025 0.04 0.06 0.1 0.25 0.5 1 2.5 5 10",
  llm_d_epp_response_processing_duration_seconds:
    "0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5",
};

describe("createMetrics", () => {
  const registry = new MetricsRegistry();
  const families: Readonly<Record<string, AnyFamily>> = createMetrics(registry);
  for (const family of Object.values(families)) family.with(...family.labels.map((label) => `a ${label}`));
  const page = render(registry);
  const samples = slowRead(Buffer.from(page)).flatMap((line) => (line.sample === undefined ? [] : [line.sample]));

  it("has every name with its type and labels, and no other (S-90)", () => {
    const found = [...page.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => {
      const sample = samples.find((candidate) => candidate.name === (type === "histogram" ? `${name}_sum` : name));
      return [name, type, Object.keys(sample!.labels).sort().join(",")];
    });
    const byName = (a: readonly unknown[], b: readonly unknown[]): number => (String(a[0]) < String(b[0]) ? -1 : 1);
    expect(found.sort(byName)).toEqual([...EXPECTED].sort(byName));
  });

  it("has the bounds that recording rules match on, 32778 included (S-90, pitfall 24)", () => {
    for (const [name, bounds] of Object.entries(BUCKETS)) {
      const texts = samples.filter((sample) => sample.name === `${name}_bucket`).map((sample) => sample.labels.le);
      expect(texts, name).toEqual([...bounds.split(" "), "+Inf"]);
    }
  });

  it("keeps the value of endpoint_name under the older label pod_name", () => {
    const sample = samples.find((candidate) => candidate.name === "inference_extension_scheduler_attempts_total");
    expect(sample?.labels.pod_name).toBe("a endpoint_name");
  });

  it("tags the help of the reference's metrics as [ALPHA], not that of our own", () => {
    for (const [, name, help] of page.matchAll(/^# HELP (\S+) (.*)$/gm)) {
      expect(help!.startsWith("[ALPHA] "), name).toBe(!name!.startsWith("sluice_"));
    }
  });

  it("goes into a registry once", () => {
    expect(() => createMetrics(registry)).toThrow(
      expect.objectContaining({ message: expect.stringContaining("already registered") }),
    );
  });
});

describe("request metrics", () => {
  it("adds up fairness IDs and priorities under the older names", () => {
    const registry = new MetricsRegistry();
    const metrics = createMetrics(registry);
    metrics.requestTotal.with("m", "t", "alice", "0").inc();
    metrics.requestTotal.with("m", "t", "bob", "0").inc();
    metrics.requestTotal.with("m", "t", "bob", "-1").inc();
    metrics.requestRunning.with("m", "t", "alice", "0").inc();
    metrics.requestRunning.with("m", "u", "bob", "0").inc();
    const page = render(registry);
    expect(page).toContain('inference_objective_request_total{model_name="m",target_model_name="t",priority="0"} 2\n');
    expect(page).toContain('inference_model_request_total{model_name="m",target_model_name="t"} 3\n');
    expect(page).toContain('inference_model_running_requests{model_name="m"} 2\n');
  });
});
