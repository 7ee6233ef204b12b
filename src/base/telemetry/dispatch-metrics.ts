import { type FamiliesOf, type MetricsRegistry, type MetricTable, registerTable } from "./registry.ts";

/** Labels in alphabetical order, as on the reference's page. */
const QUEUE = ["pool_name", "queue_id", "queue_name"] as const;
const GATE = ["inference_pool", ...QUEUE] as const;
/** Label values come from the configuration alone. One process serves fewer queues than this. */
const MAX_QUEUES = 4096;

/** Why a queued message did not go: the values of `reason` of `gate_decisions_total`. */
export const DECISION_REASONS = ["gate_closed", "quota_exhausted", "dropped", "error"] as const;
export type DecisionReason = (typeof DECISION_REASONS)[number];

/**
 * Why an outcome was dropped: the values of `reason` of `results_fenced_total`. `taken`: another process took the message over,
 * or it was settled before. `answered`: the message had a terminal result already, from a store that lost data in between.
 */
export const FENCED_REASONS = ["taken", "answered"] as const;
export type FencedReason = (typeof FENCED_REASONS)[number];

/** The Async Processor's own metrics. Dashboards and alerts match on these names and bounds (async-processor 8.6). */
export const DISPATCH_METRICS = {
  requestTotal: {
    type: "counter",
    name: "llm_d_async_async_request_total",
    help: "Messages that a worker took for the first time.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  requestRetriesTotal: {
    type: "counter",
    name: "llm_d_async_async_request_retries_total",
    help: "Scheduled retries.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  successfulRequestsTotal: {
    type: "counter",
    name: "llm_d_async_async_successful_requests_total",
    help: "Messages that ended with an HTTP status below 400.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  failedRequestsTotal: {
    type: "counter",
    name: "llm_d_async_async_failed_requests_total",
    help: "Messages that ended with a failure, invalid messages included.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  exceededDeadlineRequestsTotal: {
    type: "counter",
    name: "llm_d_async_async_exceeded_deadline_requests_total",
    help: "Messages that ended because their deadline passed.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  sheddedRequestsTotal: {
    type: "counter",
    name: "llm_d_async_async_shedded_requests_total",
    help: "Attempts that got HTTP status 429.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  queueDepth: {
    type: "gauge",
    name: "llm_d_async_async_queue_depth",
    help: "Claimed and merged messages that wait for a worker.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  inflightRequests: {
    type: "gauge",
    name: "llm_d_async_async_inflight_requests",
    help: "Messages that the gate of the worker pool admitted and that have not ended.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  brokerBacklog: {
    type: "gauge",
    name: "llm_d_async_async_broker_backlog",
    help: "Unclaimed messages in the broker, at the last successful poll.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  dispatchBudget: {
    type: "gauge",
    name: "llm_d_async_async_dispatch_budget",
    help: "Last budget from the gate of the queue, 0 to 1.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  poolWorkerLimit: {
    type: "gauge",
    name: "llm_d_async_async_pool_worker_limit",
    help: "Workers of the worker pool: the most requests in flight from the pool.",
    labels: ["pool_name"],
    maxSeries: MAX_QUEUES,
  },
  gateDecisionsTotal: {
    type: "counter",
    name: "llm_d_async_async_gate_decisions_total",
    help: "Times that a gate held messages back, by reason: gate_closed, quota_exhausted, dropped, error.",
    labels: [...QUEUE, "reason"],
    maxSeries: MAX_QUEUES * DECISION_REASONS.length,
  },
  gateMetricValue: {
    type: "gauge",
    name: "llm_d_async_async_gate_metric_value",
    help: "Last value that a metric gate read.",
    labels: GATE,
    maxSeries: MAX_QUEUES,
  },
  gateMetricThreshold: {
    type: "gauge",
    name: "llm_d_async_async_gate_metric_threshold",
    help: "A metric gate is closed at or below this value.",
    labels: GATE,
    maxSeries: MAX_QUEUES,
  },
  gateMetricSourceAvailable: {
    type: "gauge",
    name: "llm_d_async_async_gate_metric_source_available",
    help: "1 while the source of a metric gate is readable and its value is recent enough, else 0.",
    labels: GATE,
    maxSeries: MAX_QUEUES,
  },
  inferenceLatency: {
    type: "histogram",
    name: "llm_d_async_async_inference_latency_time_millis",
    help: "Milliseconds of one attempt at the gateway, successful or not.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
    buckets: [10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000],
  },
  queueResidence: {
    type: "histogram",
    name: "llm_d_async_async_queue_residence_time_millis",
    help: "Milliseconds from the creation of a message until a worker took it.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
    buckets: [
      500, 1000, 2000, 5000, 10000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000, 7200000, 21600000, 43200000,
      86400000,
    ],
  },
  messageLatency: {
    type: "histogram",
    name: "llm_d_async_async_message_latency_time_millis",
    help: "Milliseconds from the publication of a message to its success. Pub/Sub only.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
    buckets: [100, 1000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000],
  },
  claimsActive: {
    type: "gauge",
    name: "llm_d_async_async_claims_active",
    help: "Messages that this process holds under a lease.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  claimsReclaimedTotal: {
    type: "counter",
    name: "llm_d_async_async_claims_reclaimed_total",
    help: "Messages returned to the queue because their lease expired.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  resultsFencedTotal: {
    type: "counter",
    name: "llm_d_async_async_results_fenced_total",
    help: "Dropped outcomes, by reason: taken = another process has the message, answered = the message already has a result.",
    labels: [...QUEUE, "reason"],
    maxSeries: MAX_QUEUES * FENCED_REASONS.length,
  },
  resultsRecoveredTotal: {
    type: "counter",
    name: "llm_d_async_async_results_recovered_total",
    help: "Outcomes written for messages that the store had lost.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  leasesRecoveredTotal: {
    type: "counter",
    name: "llm_d_async_async_leases_recovered_total",
    help: "Leases that the store lost while this process kept the messages.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  deadLetteredTotal: {
    type: "counter",
    name: "llm_d_async_async_dead_lettered_total",
    help: "Entries that became dead letters.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  retryBacklog: {
    type: "gauge",
    name: "llm_d_async_async_retry_backlog",
    help: "Messages that wait for their retry, in all queues.",
    labels: [],
  },
  overloadLatch: {
    type: "gauge",
    name: "llm_d_async_async_overload_latch",
    help: "1 while overload of the gateway keeps the gate closed, else 0.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  dispatchAllowance: {
    type: "gauge",
    name: "llm_d_async_async_dispatch_allowance",
    help: "The most that may be in flight now (N), in the unit of the gate: requests, tokens or bytes.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  redisWriteRetriesTotal: {
    type: "counter",
    name: "llm_d_async_async_redis_write_retries_total",
    help: "Retries of writes to the broker.",
    labels: [],
  },
  expiredAtPullTotal: {
    type: "counter",
    name: "llm_d_async_async_expired_at_pull_total",
    help: "Messages claimed after their deadline.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  brokerBacklogPollErrorsTotal: {
    type: "counter",
    name: "llm_d_async_async_broker_backlog_poll_errors_total",
    help: "Failed polls of the backlog. After a failure, broker_backlog keeps its last value.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  oldestMessageAge: {
    type: "gauge",
    name: "llm_d_async_async_oldest_message_age_seconds",
    help: "Age in seconds of the oldest waiting message.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
  backlogEta: {
    type: "gauge",
    name: "llm_d_async_async_backlog_eta_seconds",
    help: "Estimated seconds until the queue is empty at the current rate.",
    labels: QUEUE,
    maxSeries: MAX_QUEUES,
  },
} as const satisfies MetricTable;

/** One family per metric of the Async Processor. */
export type DispatchMetrics = FamiliesOf<typeof DISPATCH_METRICS>;

/** Registers them; once per registry (SluiceError METRIC_SPEC otherwise). */
export function createDispatchMetrics(registry: MetricsRegistry): DispatchMetrics {
  return registerTable(registry, DISPATCH_METRICS);
}
