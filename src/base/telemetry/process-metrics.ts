import { STREAM } from "./buckets.ts";
import type { MetricTable } from "./registry.ts";

/** Metrics that only Sluice has: its two wires and its buffers. */
export const WIRE_METRICS = {
  bufferedBytes: {
    type: "gauge",
    name: "sluice_buffered_bytes",
    help: "Bytes of request and response bodies in memory.",
    labels: [],
  },
  bodyBudgetBytes: {
    type: "gauge",
    name: "sluice_body_budget_bytes",
    help: "Bytes of bodies in memory, by pool: small = the reserve of small request bodies, main = all others.",
    labels: ["pool"],
  },
  bodyBudgetLimit: {
    type: "gauge",
    name: "sluice_body_budget_limit_bytes",
    help: "Byte budget in bytes: request bodies wait while bodies in memory exceed it. By pool: small or main.",
    labels: ["pool"],
  },
  bodyBudgetPaused: {
    type: "gauge",
    name: "sluice_body_budget_paused",
    help: "Request bodies that wait because the byte budget is spent.",
    labels: [],
  },
  extprocStreams: {
    type: "gauge",
    name: "sluice_extproc_streams",
    help: "Open ext_proc streams.",
    labels: [],
  },
  extprocResetsTotal: {
    type: "counter",
    name: "sluice_extproc_resets_total",
    help: "ext_proc streams that Envoy ended with a reset.",
    labels: [],
  },
  extprocConnections: {
    type: "gauge",
    name: "sluice_extproc_connections",
    help: "Connections of the ext_proc port.",
    labels: [],
  },
  extprocRefusedTotal: {
    type: "counter",
    name: "sluice_extproc_refused_total",
    help: "Refusals of the ext_proc port, by kind: connections, streams (of one connection), total_streams = too many; certificate = none or not accepted; flood = too many frames without data.",
    labels: ["kind"],
  },
  extprocNoticesTotal: {
    type: "counter",
    name: "sluice_extproc_notices_total",
    help: "Protocol faults of proxies that the picker tolerates, by kind: repeated-end, streamed-request-body.",
    labels: ["kind"],
  },
  gatewayRetriesTotal: {
    type: "counter",
    name: "sluice_gateway_retries_total",
    help: "Retries of the gateway on another endpoint, by the cause of the failure.",
    labels: ["cause"],
  },
  gatewayAccessTotal: {
    type: "counter",
    name: "sluice_gateway_access_total",
    help: "Requests at a gateway with keys, by result: key, token = admitted by a key or a token; else the reason of the refusal.",
    labels: ["result"],
  },
  gatewayKeyRequestsTotal: {
    type: "counter",
    name: "sluice_gateway_key_requests_total",
    help: "Admitted requests, by the name of their key or token. After 1,000 names: other.",
    labels: ["key"],
  },
  requestLogDroppedTotal: {
    type: "counter",
    name: "sluice_request_log_dropped_total",
    help: "Lost lines of the request log of the gateway: the target of the log was too slow or gone.",
    labels: [],
  },
  exchangesTotal: {
    type: "counter",
    name: "sluice_exchanges_total",
    help: "Inference exchanges by outcome: complete, rejected, client-gone, interrupted, no-response-phase, error. In a gateway also: bad-request = refused before its exchange began, unauthorized = without a valid key or token, connection-refused = a connection above the limit.",
    labels: ["outcome"],
  },
} as const satisfies MetricTable;

/** The process itself, under the names that Prometheus client libraries have in common. */
export const PROCESS_METRICS = {
  cpuUserSeconds: {
    type: "counter",
    name: "process_cpu_user_seconds_total",
    help: "CPU seconds in user mode.",
    labels: [],
  },
  cpuSystemSeconds: {
    type: "counter",
    name: "process_cpu_system_seconds_total",
    help: "CPU seconds in the kernel.",
    labels: [],
  },
  cpuSeconds: {
    type: "counter",
    name: "process_cpu_seconds_total",
    help: "CPU seconds in user mode and in the kernel.",
    labels: [],
  },
  startTime: {
    type: "gauge",
    name: "process_start_time_seconds",
    help: "Start time of the process, in seconds since the Unix epoch.",
    labels: [],
  },
  residentMemory: {
    type: "gauge",
    name: "process_resident_memory_bytes",
    help: "Resident memory in bytes.",
    labels: [],
  },
  openFds: {
    type: "gauge",
    name: "process_open_fds",
    help: "Open file descriptors at the previous scrape. Linux only.",
    labels: [],
  },
  maxFds: {
    type: "gauge",
    name: "process_max_fds",
    help: "Most file descriptors that the process may open. Linux only.",
    labels: [],
  },
  heapTotal: {
    type: "gauge",
    name: "nodejs_heap_size_total_bytes",
    help: "Bytes of heap that V8 has reserved.",
    labels: [],
  },
  heapUsed: {
    type: "gauge",
    name: "nodejs_heap_size_used_bytes",
    help: "Bytes of heap in use.",
    labels: [],
  },
  externalMemory: {
    type: "gauge",
    name: "nodejs_external_memory_bytes",
    help: "Bytes outside the heap that belong to objects on the heap, buffers included.",
    labels: [],
  },
  version: {
    type: "gauge",
    name: "nodejs_version_info",
    help: "Always 1; the label is the version of Node.js.",
    labels: ["version"],
  },
  lagP50: {
    type: "gauge",
    name: "nodejs_eventloop_lag_p50_seconds",
    help: "Median delay of the event loop since the previous scrape, in seconds.",
    labels: [],
  },
  lagP99: {
    type: "gauge",
    name: "nodejs_eventloop_lag_p99_seconds",
    help: "99th percentile of the delay of the event loop since the previous scrape, in seconds.",
    labels: [],
  },
  lagMax: {
    type: "gauge",
    name: "sluice_event_loop_lag_seconds",
    help: "Longest delay of the event loop since the previous scrape, in seconds.",
    labels: [],
  },
} as const satisfies MetricTable;

/** Metrics of the runtime. */
export const CONFIG_METRICS = {
  configInfo: {
    type: "gauge",
    name: "sluice_config_info",
    help: "1 for the current configuration, by its fingerprint. Decision records have the same fingerprint.",
    labels: ["hash"],
  },
  configReloadsTotal: {
    type: "counter",
    name: "sluice_config_reloads_total",
    help: "Changes of the configuration file, by result: applied, refused.",
    labels: ["result"],
  },
  gatewayFileReloadsTotal: {
    type: "counter",
    name: "sluice_gateway_file_reloads_total",
    help: "Changes of gateway.yaml, by result: applied, refused.",
    labels: ["result"],
  },
  gatewayFileRefused: {
    type: "gauge",
    name: "sluice_gateway_file_refused",
    help: "1 while gateway.yaml has an error and its last good content stays in use.",
    labels: [],
  },
  gatewayFileRestartKeys: {
    type: "gauge",
    name: "sluice_gateway_file_restart_keys",
    help: "Changed keys of gateway.yaml that need a restart to take effect.",
    labels: [],
  },
  configRefused: {
    type: "gauge",
    name: "sluice_config_refused",
    help: "1 while the configuration file has an error and an older configuration stays in use.",
    labels: [],
  },
} as const satisfies MetricTable;

/** Metrics of ext_proc streams, with `--enable-grpc-stream-metrics` only (scheduling 8.5). */
export const STREAM_METRICS = {
  streamsInflight: {
    type: "gauge",
    name: "llm_d_epp_extproc_streams_inflight",
    help: "[ALPHA] Open ext_proc streams.",
    labels: [],
  },
  streamDuration: {
    type: "histogram",
    name: "llm_d_epp_extproc_stream_duration_seconds",
    help: "[ALPHA] Seconds from start to end of an ext_proc stream.",
    labels: [],
    buckets: STREAM,
  },
  streamsTotal: {
    type: "counter",
    name: "llm_d_epp_extproc_streams_total",
    help: "[ALPHA] Ended ext_proc streams, by gRPC status. A reset, Envoy's normal end, counts as Canceled.",
    labels: ["code"],
  },
} as const satisfies MetricTable;
