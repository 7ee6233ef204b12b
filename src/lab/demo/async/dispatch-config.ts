export interface DispatchConfig {
  /** Of the queue file. */
  readonly path: string;
  readonly queueName: string;
  readonly gatewayUrl: string;
  readonly workers: number;
  /** Undefined: a gate that lets everything pass. */
  readonly gate: BudgetGate | undefined;
}

export interface BudgetGate {
  /** The gateway's page of metrics. */
  readonly url: string;
  /** Requests that one server runs at a time, and all of them. */
  readonly slotsPerServer: number;
  readonly slots: number;
  /** B. */
  readonly baseline: number;
}

/** The file that `sluice dispatch` is started with. Times are shorter than one would choose for anything but a demo. */
export function dispatchConfig({ path, queueName, gatewayUrl, workers, gate }: DispatchConfig): string {
  return `transport: sqlite
transport-config:
  path: ${JSON.stringify(path)}
  result_queue_name: ${queueName}-results
  claim_ttl_ms: 3000
  reclaim_interval_ms: 500
  queues:
  - queue_name: ${queueName}
    result_queue_name: ${queueName}-results
    igw_base_url: ${gatewayUrl}
    request_path_url: /v1/completions
${gateText(gate)}
concurrency: ${workers}
prometheus-cache-ttl: 250ms
metrics-backlog-poll-interval: 1s
bind-address: 127.0.0.1
health-port: 0
`;
}

/** The gate needs no Prometheus: the gateway's own page tells how much runs in a server on average. */
function gateText(gate: BudgetGate | undefined): string {
  if (gate === undefined) return "    gate_type: constant";
  return `    gate_type: endpoint-scrape
    gate_params:
      url: ${gate.url}
      metric: llm_d_epp_average_running_requests
      max_count_per_pod: ${gate.slotsPerServer}
      max_sys: ${gate.slots}
      baseline: ${gate.baseline}`;
}
