import type { Clock } from "../../../base/clock/clock.ts";
import { freePort, PartProcess } from "../part-process.ts";

const METRICS_PORT = 9090;
/** Milliseconds between the kill of a dispatcher and its restart. */
const ABSENCE_MS = 1000;
/** Milliseconds without an answer after which a dispatcher counts as away. */
const ASK_LIMIT_MS = 1000;

interface DispatcherOptions {
  /** Path of its configuration. */
  readonly file: string;
  /** Program and arguments that run `sluice` in a child process. */
  readonly program: readonly string[];
  readonly clock: Clock;
  say(line: string): void;
}

/** The state of a dispatcher from its `/debug` pages. */
export interface DispatcherView {
  readonly running: number;
  readonly etaSeconds: number | null;
  /** The state of the gate; undefined when the dispatcher does not report it. */
  readonly gate: GateView | undefined;
}

interface GateView {
  readonly state: string;
  readonly because: string;
  /** null before the first reading. */
  readonly D: number | null;
  readonly B: number;
  readonly N: number;
}

/** `sluice dispatch` in its own process: its queue waits for the disk, and that must block no other part of the demo. */
export class DemoDispatcher {
  readonly #process: PartProcess;
  #kills = 0;

  constructor({ file, program, clock, say }: DispatcherOptions) {
    this.#process = new PartProcess({
      name: "dispatcher",
      program,
      command: "dispatch",
      flags: (port) => ["--config", file, "--metrics-port", String(port)],
      ready: "metrics",
      absence: ABSENCE_MS,
      clock,
      onChange: say,
    });
  }

  get kills(): number {
    return this.#kills;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#process.port}`;
  }

  async start(): Promise<void> {
    await this.#process.start(await freePort("127.0.0.1", METRICS_PORT));
  }

  /** Sends SIGKILL; the dispatcher then restarts. */
  kill(): void {
    if (this.#process.pid === undefined) return;
    this.#kills++;
    this.#process.kill();
  }

  stop(): Promise<void> {
    return this.#process.stop();
  }

  /** Reads the state; undefined while the dispatcher is away. */
  async look(): Promise<DispatcherView | undefined> {
    const ask = async <T>(path: string): Promise<T> =>
      (await (await fetch(this.url + path, { signal: AbortSignal.timeout(ASK_LIMIT_MS) })).json()) as T;
    try {
      const [gates, queues] = await Promise.all([
        ask<{ capacities: GateView[]; pools: { running: number }[] }>("/debug/gates"),
        ask<{ queues: { etaSeconds?: number | null }[] }>("/debug/queues"),
      ]);
      return {
        running: gates.pools[0]?.running ?? 0,
        etaSeconds: queues.queues[0]?.etaSeconds ?? null,
        gate: gates.capacities[0],
      };
    } catch {
      return undefined;
    }
  }
}

interface DispatchConfig {
  /** Path of the queue file. */
  readonly path: string;
  readonly queueName: string;
  readonly gatewayUrl: string;
  readonly workers: number;
  /** Undefined: no gate limits the queue. */
  readonly gate: BudgetGate | undefined;
}

export interface BudgetGate {
  /** URL of the gateway's metrics page. */
  readonly url: string;
  /** Requests that one server runs at a time, and the sum over all servers. */
  readonly slotsPerServer: number;
  readonly slots: number;
  /** B. */
  readonly baseline: number;
}

/** The configuration file of the demo's `sluice dispatch`. Its times are shorter than they should be in production. */
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

/** The gate needs no Prometheus: the gateway's own page shows the mean number of running requests per server. */
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
