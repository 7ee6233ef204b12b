import { ask } from "./client.ts";
import { PROGRAM, sluice, TestProcess } from "./process.ts";

/** A transport's section: `redis-sortedset` or `sqlite`, with one queue named `q`. */
export interface DispatchTransport {
  readonly name: "redis-sortedset" | "sqlite";
  readonly config: Readonly<Record<string, unknown>>;
}

export interface DispatchProcessOptions {
  readonly transport: DispatchTransport;
  /** Of the gateway. */
  readonly gateway: string;
  readonly workers?: number;
  /** Milliseconds. */
  readonly leases?: { readonly claim_ttl_ms: number; readonly reclaim_interval_ms: number };
  /** Names of the queues; default: `q` alone. */
  readonly queueNames?: readonly string[];
  /** Of each queue. */
  readonly queue?: Readonly<Record<string, unknown>>;
  /** Further flags. */
  readonly args?: readonly string[];
  /** Options of Node itself. */
  readonly nodeArgs?: readonly string[];
}

/** `sluice dispatch` as a process of its own. */
export class DispatchProcess {
  readonly process: TestProcess;
  readonly #metricsUrl: string;

  private constructor(process: TestProcess, metricsUrl: string) {
    this.process = process;
    this.#metricsUrl = metricsUrl;
  }

  /** Starts it from the sources and waits until it listens; whatever is not said here has its default. */
  static async start(options: DispatchProcessOptions): Promise<DispatchProcess> {
    const process = spawnDispatch(options);
    return new DispatchProcess(process, `http://${await process.listening("metrics")}/metrics`);
  }

  /** The sum over all series of a metric. */
  async metric(name: string): Promise<number> {
    const { text } = await ask(this.#metricsUrl);
    let sum = 0;
    for (const line of text.split("\n"))
      if (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) sum += Number(line.slice(line.lastIndexOf(" ")));
    return sum;
  }
}

/** Starts `sluice dispatch` and waits for nothing: a random point of its life may be its beginning. */
export function spawnDispatch(options: DispatchProcessOptions): TestProcess {
  const { transport, gateway, workers, leases, queueNames = ["q"], queue, args = [], nodeArgs } = options;
  const config = {
    ...transport.config,
    ...leases,
    queues: queueNames.map((name) => ({
      ...{ queue_name: name, igw_base_url: gateway, request_path_url: "/v1/completions", ...queue },
    })),
  };
  const flags = [
    ...["dispatch", "--transport", transport.name, "--transport-config", JSON.stringify(config)],
    ...["--bind-address", "127.0.0.1", "--health-port", "0", "--metrics-port", "0", "--zap-log-level", "error"],
    ...(workers === undefined ? [] : ["--concurrency", String(workers)]),
    ...args,
  ];
  if (nodeArgs === undefined) return sluice(...flags);
  return new TestProcess(process.execPath, [...nodeArgs, PROGRAM, ...flags]);
}
