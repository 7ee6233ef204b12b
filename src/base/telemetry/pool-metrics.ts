import type { MetricTable } from "./registry.ts";

const P = ["name"] as const;

/** Series of a family with an endpoint among its labels: a pool of 500 endpoints with several label sets for each. */
const PER_ENDPOINT = 4096;
/**
 * All flows that the table of flows in flight can hold, so that no series stands for several. The table has as many places
 * again for flows that do not fit.
 */
const PER_FLOW = 2 * PER_ENDPOINT;

/** Metrics of the pool as a whole and of its endpoints (scheduling 8.4). */
export const POOL_METRICS = {
  poolAverageKvCacheUtilization: {
    type: "gauge",
    name: "llm_d_epp_average_kv_cache_utilization",
    help: "[ALPHA] Mean share of the KV cache in use over the endpoints with fresh metrics, 0 to 1.",
    labels: P,
    twins: [{ name: "inference_pool_average_kv_cache_utilization" }],
  },
  poolAverageQueueSize: {
    type: "gauge",
    name: "llm_d_epp_average_queue_size",
    help: "[ALPHA] Mean number of requests waiting in a model server, over the endpoints with fresh metrics.",
    labels: P,
    twins: [{ name: "inference_pool_average_queue_size" }],
  },
  poolAverageRunningRequests: {
    type: "gauge",
    name: "llm_d_epp_average_running_requests",
    help: "[ALPHA] Mean number of requests running in a model server, over the endpoints with fresh metrics.",
    labels: P,
    twins: [{ name: "inference_pool_average_running_requests" }],
  },
  poolStdDevKvCacheUtilization: {
    type: "gauge",
    name: "llm_d_epp_std_dev_kv_cache_utilization",
    help: "[ALPHA] Sample standard deviation of the share of the KV cache in use, 0 below two endpoints.",
    labels: P,
  },
  poolStdDevQueueSize: {
    type: "gauge",
    name: "llm_d_epp_std_dev_queue_size",
    help: "[ALPHA] Sample standard deviation of the number of waiting requests, 0 below two endpoints.",
    labels: P,
  },
  poolStdDevRunningRequests: {
    type: "gauge",
    name: "llm_d_epp_std_dev_running_requests",
    help: "[ALPHA] Sample standard deviation of the number of running requests, 0 below two endpoints.",
    labels: P,
  },
  poolReadyEndpoints: {
    type: "gauge",
    name: "llm_d_epp_ready_endpoints",
    help: "[ALPHA] Number of endpoints with fresh metrics.",
    labels: P,
    twins: [{ name: "inference_pool_ready_pods" }],
  },
  poolPerEndpointQueueSize: {
    type: "gauge",
    name: "llm_d_epp_per_endpoint_queue_size",
    help: "[ALPHA] Requests waiting in one model server, at its last scrape.",
    labels: ["name", "model_server_endpoint"],
    maxSeries: PER_ENDPOINT,
    twins: [
      {
        name: "inference_pool_per_pod_queue_size",
        labels: ["name", { label: "model_server_pod", from: "model_server_endpoint" }],
      },
    ],
  },
  inflightRequests: {
    type: "gauge",
    name: "llm_d_epp_inflight_requests",
    help: "[ALPHA] Requests in flight from this process to an endpoint, by flow.",
    labels: ["endpoint_name", "namespace", "producer_name", "fairness_id", "priority"],
    maxSeries: PER_FLOW,
  },
  inflightTokens: {
    type: "gauge",
    name: "llm_d_epp_inflight_tokens",
    help: "[ALPHA] Estimated prompt tokens, of the requests in flight, that the endpoint must still compute.",
    labels: ["endpoint_name", "namespace", "producer_name", "fairness_id", "priority"],
    maxSeries: PER_FLOW,
  },
  datalayerPollErrorsTotal: {
    type: "counter",
    name: "llm_d_epp_datalayer_poll_errors_total",
    help: "[ALPHA] Failed fetches of an endpoint's data.",
    labels: ["source_type"],
    twins: [{ name: "llm_d_inference_scheduler_datalayer_poll_errors_total" }],
  },
  datalayerExtractErrorsTotal: {
    type: "counter",
    name: "llm_d_epp_datalayer_extract_errors_total",
    help: "[ALPHA] Failed reads of a value from the fetched data of an endpoint.",
    labels: ["source_type", "extractor_type"],
    twins: [{ name: "llm_d_inference_scheduler_datalayer_extract_errors_total" }],
  },
  endpointState: {
    type: "gauge",
    name: "sluice_endpoint_state",
    help: "1 for the current state of an endpoint (up, blind or down), 0 for the other two states.",
    labels: ["endpoint", "state"],
    maxSeries: PER_ENDPOINT,
  },
} as const satisfies MetricTable;

/**
 * Metrics of the objects that `sluice epp` follows in a cluster, with a pool of Kubernetes only; `kind` as in `pods` or
 * `inferencepools.GROUP`.
 */
export const KUBERNETES_METRICS = {
  kubernetesHeardAge: {
    type: "gauge",
    name: "sluice_kubernetes_heard_age_seconds",
    help: "Seconds since the API server last sent data about a kind of object, or since the start. Meanwhile routing uses the last known state. Absent for a kind that does not exist or that the picker has no permission to read.",
    labels: ["kind"],
  },
  kubernetesObjects: {
    type: "gauge",
    name: "sluice_kubernetes_objects",
    help: "Known API objects of a kind.",
    labels: ["kind"],
  },
  kubernetesListsTotal: {
    type: "counter",
    name: "sluice_kubernetes_lists_total",
    help: "Full lists of a kind of API object. A steady rise means that a watch cannot resume.",
    labels: ["kind"],
  },
  kubernetesFailuresTotal: {
    type: "counter",
    name: "sluice_kubernetes_failures_total",
    help: "Failed lists and watches of a kind of API object.",
    labels: ["kind"],
  },
} as const satisfies MetricTable;

/** For replicas that elect a leader. */
export const ELECTION_METRICS = {
  kubernetesLeader: {
    type: "gauge",
    name: "sluice_kubernetes_leader",
    help: "1 while this replica leads, 0 while another replica may lead.",
    labels: [],
  },
} as const satisfies MetricTable;
