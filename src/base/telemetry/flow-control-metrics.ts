import { FAST, QUEUE, REVOCATION } from "./buckets.ts";
import type { TwinSpec } from "./metric-spec.ts";
import type { MetricTable } from "./registry.ts";

const POOL = ["inference_pool"] as const;
/** Labels of one queue: a flow, and the models that its requests name. */
const QUEUED = ["fairness_id", "priority", "inference_pool", "model_name", "target_model_name"] as const;

/** Label sets of queues, the shared one for all further ones included. The code that counts keeps to this number. */
export const MAX_QUEUE_SERIES = 1001;
/** Priorities with labels of their own, the shared label of all further ones included. As many bands can exist. */
export const MAX_PRIORITY_SERIES = 1025;
/** Fairness IDs with labels of their own, the shared label of all further ones included. */
const MAX_PROGRAM_SERIES = 1001;
/** Values of the label `outcome`, `NotYetFinalized` included. */
const OUTCOMES = 9;

/** The deprecated name of v1.5. */
function older(name: string): readonly TwinSpec[] {
  return [{ name: `inference_extension_flow_control_${name}` }];
}

/** Metrics of flow control, and of the saturation that it decides by (scheduling 8.6). */
export const FLOW_CONTROL_METRICS = {
  queueDuration: {
    type: "histogram",
    name: "llm_d_epp_flow_control_request_queue_duration_seconds",
    help: "[ALPHA] Seconds that a request spent in flow control, by outcome.",
    labels: ["fairness_id", "priority", "outcome", "inference_pool", "model_name", "target_model_name"],
    maxSeries: OUTCOMES * MAX_QUEUE_SERIES,
    buckets: QUEUE,
    twins: older("request_queue_duration_seconds"),
  },
  dispatchCycleDuration: {
    type: "histogram",
    name: "llm_d_epp_flow_control_dispatch_cycle_duration_seconds",
    help: "[ALPHA] Seconds of one dispatch cycle, which dispatches up to 64 requests.",
    labels: [],
    buckets: FAST,
    twins: older("dispatch_cycle_duration_seconds"),
  },
  enqueueDuration: {
    type: "histogram",
    name: "llm_d_epp_flow_control_request_enqueue_duration_seconds",
    help: "[ALPHA] Seconds of the capacity check and the insertion of one request; outcome NotYetFinalized: the request is in a queue.",
    labels: ["fairness_id", "priority", "outcome"],
    maxSeries: OUTCOMES * MAX_QUEUE_SERIES,
    buckets: FAST,
    twins: older("request_enqueue_duration_seconds"),
  },
  queueSize: {
    type: "gauge",
    name: "llm_d_epp_flow_control_queue_size",
    help: "[ALPHA] Requests in flow control, from arrival to admission or refusal.",
    labels: QUEUED,
    maxSeries: MAX_QUEUE_SERIES,
    twins: older("queue_size"),
  },
  queueBytes: {
    type: "gauge",
    name: "llm_d_epp_flow_control_queue_bytes",
    help: "[ALPHA] Bytes of the bodies of requests in flow control.",
    labels: QUEUED,
    maxSeries: MAX_QUEUE_SERIES,
    twins: older("queue_bytes"),
  },
  queueTokens: {
    type: "gauge",
    name: "sluice_flow_control_queue_tokens",
    help: "Estimated prompt tokens of the requests in flow control.",
    labels: QUEUED,
    maxSeries: MAX_QUEUE_SERIES,
  },
  predictedWait: {
    type: "gauge",
    name: "sluice_flow_control_predicted_wait_seconds",
    help: "Estimated seconds until all requests have left flow control, at the rate of the last dispatches. While almost no request leaves: seconds that requests have been waiting.",
    labels: POOL,
  },
  poolSaturation: {
    type: "gauge",
    name: "llm_d_epp_flow_control_pool_saturation",
    help: "[ALPHA] Saturation of the pool by its detector; 1 and above = saturated. Stages prefill and decode: with flow control only. Stage effective: the higher of the two.",
    labels: ["inference_pool", "stage"],
    twins: older("pool_saturation"),
  },
  staleEndpoints: {
    type: "gauge",
    name: "llm_d_epp_flow_control_stale_endpoints",
    help: "[ALPHA] Endpoints that the detector counted as saturated because their metrics are not fresh.",
    labels: ["detector"],
  },
  capacityUtilizationRequests: {
    type: "gauge",
    name: "llm_d_epp_flow_control_capacity_utilization_requests",
    help: "[ALPHA] Queued requests of a priority band as a share of its limit, 0 to 1.",
    labels: ["priority", "inference_pool"],
    maxSeries: MAX_PRIORITY_SERIES,
  },
  capacityUtilizationBytes: {
    type: "gauge",
    name: "llm_d_epp_flow_control_capacity_utilization_bytes",
    help: "[ALPHA] Bytes of the queued requests of a priority band as a share of its limit, 0 to 1.",
    labels: ["priority", "inference_pool"],
    maxSeries: MAX_PRIORITY_SERIES,
  },
  globalCapacityUtilizationRequests: {
    type: "gauge",
    name: "llm_d_epp_flow_control_global_capacity_utilization_requests",
    help: "[ALPHA] Queued requests of all bands as a share of their common limit, 0 to 1. Absent without such a limit.",
    labels: POOL,
  },
  globalCapacityUtilizationBytes: {
    type: "gauge",
    name: "llm_d_epp_flow_control_global_capacity_utilization_bytes",
    help: "[ALPHA] Bytes of the queued requests of all bands as a share of their common limit, 0 to 1. Absent without such a limit.",
    labels: POOL,
  },
  flowControlRequestsTotal: {
    type: "counter",
    name: "llm_d_epp_flow_control_requests_total",
    help: "[ALPHA] Requests that have left flow control, by outcome and by their own priority. Refused requests count too.",
    labels: ["outcome", "priority", "inference_pool"],
    maxSeries: OUTCOMES * MAX_PRIORITY_SERIES,
  },
  revocationsIssuedTotal: {
    type: "counter",
    name: "llm_d_epp_flow_control_revocations_issued_total",
    help: "[ALPHA] Requests in flight that flow control ended, by the priority of the requests that need their room.",
    labels: ["priority", "inference_pool"],
    maxSeries: MAX_PRIORITY_SERIES,
  },
  revocationsTotal: {
    type: "counter",
    name: "llm_d_epp_flow_control_revocations_total",
    help: "[ALPHA] Revoked requests, by outcome: confirmed = ended, timed_out = not ended within 10 s.",
    labels: ["outcome", "inference_pool"],
  },
  reclaimTarget: {
    type: "gauge",
    name: "llm_d_epp_flow_control_reclaim_target",
    help: "[ALPHA] Saturation minus the ceiling of the waiting band, at the last revocation.",
    labels: POOL,
  },
  pendingReclaim: {
    type: "gauge",
    name: "llm_d_epp_flow_control_pending_reclaim",
    help: "[ALPHA] Saturation that revoked requests free, while metrics may not show this yet.",
    labels: POOL,
  },
  revocationConfirmation: {
    type: "histogram",
    name: "llm_d_epp_flow_control_revocation_confirmation_seconds",
    help: "[ALPHA] Seconds from the revocation of a request to its end.",
    labels: POOL,
    buckets: REVOCATION,
  },
  programFairness: {
    type: "gauge",
    name: "llm_d_epp_program_aware_jains_fairness_index",
    help: "[ALPHA] Jain's fairness index of the average waits of all fairness IDs; 1 = equal waits. NaN without program-aware-fairness.",
    labels: [],
  },
  programWait: {
    type: "gauge",
    name: "llm_d_epp_program_aware_avg_wait_time_milliseconds",
    help: "[ALPHA] Average milliseconds that admitted requests of a fairness ID waited in flow control. With program-aware-fairness only.",
    labels: ["program_id"],
    maxSeries: MAX_PROGRAM_SERIES,
  },
  programService: {
    type: "gauge",
    name: "llm_d_epp_program_aware_attained_service_tokens",
    help: "[ALPHA] Tokens that a fairness ID got; a completion token counts as 2. The value halves with time. With program-aware-fairness only.",
    labels: ["program_id"],
    maxSeries: MAX_PROGRAM_SERIES,
  },
} as const satisfies MetricTable;
