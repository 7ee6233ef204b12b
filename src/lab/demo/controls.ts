import type { Clock } from "../../base/clock/clock.ts";
import type {
  DemoPolicy,
  DemoPolicyFigures,
  DemoState,
  PolicyOrder,
  ServerOrder,
  TrafficOrder,
  WaveOrder,
} from "../../wires/admin/feed/demo.ts";
import type { Cluster } from "./cluster.ts";
import { type DemoControls, OrderRefused } from "./control-routes.ts";
import type { PolicySummary } from "./policy-figures.ts";
import { RATE_PER_SERVER } from "./traffic.ts";
import { type DemoWave, NO_WAVE } from "./wave.ts";

/** The highest rate in requests per second and server: a little more than the servers can take. */
const MOST_PER_SERVER = 30;
const NOT_YET = "the demo first compares both policies with the same requests; after that you can control the traffic";

/** What the page orders, and the figures that it shows. The demo reads the rate and the policy from here. */
export class Controls implements DemoControls {
  readonly rates: readonly [number, number];
  readonly #clock: Clock;
  readonly #cluster: Cluster;
  readonly #note: (text: string) => void;
  readonly #figures = new Map<DemoPolicy, DemoPolicyFigures>();
  #rate: number;
  #policy: DemoPolicy = "round-robin";
  /** Undefined while the demo follows its script. */
  #wave: DemoWave | undefined;
  #changed = new AbortController();

  /** @param note tells an event on the time axis of the page */
  constructor(clock: Clock, cluster: Cluster, note: (text: string) => void) {
    this.#clock = clock;
    this.#cluster = cluster;
    this.#note = note;
    this.#rate = RATE_PER_SERVER * cluster.servers.length;
    this.rates = [1, MOST_PER_SERVER * cluster.servers.length];
  }

  /** The policy that runs; orders of the page change it once the demo is open. */
  get policyNow(): DemoPolicy {
    return this.#policy;
  }

  /** Requests per second. */
  get rate(): number {
    return this.#rate;
  }

  /** Aborted when the policy shall change. */
  get changed(): AbortSignal {
    return this.#changed.signal;
  }

  /** The demo runs this policy from now on. */
  runs(policy: DemoPolicy): void {
    this.#policy = policy;
    this.#changed = new AbortController();
  }

  /** The script is over: the page controls the demo. */
  open(wave: DemoWave): void {
    this.#wave = wave;
  }

  /** @param seconds that the policy has run */
  measured(policy: DemoPolicy, seconds: number, summary: PolicySummary): void {
    const known = (ms: number): number | null => (Number.isFinite(ms) ? ms : null);
    this.#figures.set(policy, {
      ...{ policy, seconds: Math.round(seconds * 10) / 10 },
      requests: summary.requests,
      failed: summary.failed + summary.interrupted,
      ttftMs: { p50: known(summary.ttftMs.p50), p90: known(summary.ttftMs.p90) },
      outputTokensPerSecond: summary.outputTokensPerSecond,
      cacheHitRate: summary.cacheHitRate,
    });
  }

  async state(): Promise<DemoState> {
    return {
      at: this.#clock.wall(),
      ready: this.#wave !== undefined,
      because: this.#wave === undefined ? NOT_YET : "",
      servers: this.#cluster.servers.map(({ name, pid }) => ({
        name,
        endpoint: `default/${name}`,
        state: pid === undefined ? "away" : "running",
        pid: pid ?? null,
      })),
      traffic: { requestsPerSecond: this.#rate, least: this.rates[0], most: this.rates[1] },
      policy: this.#policy,
      policies: [...this.#figures.values()],
      wave: (await this.#wave?.state()) ?? NO_WAVE,
    };
  }

  server({ name, order }: ServerOrder): void {
    const server = this.#cluster.servers.find((one) => one.name === name);
    if (server === undefined) throw new OrderRefused(404, `the demo has no server ${name.slice(0, 60)}`);
    if (order === "start") {
      server.startNow();
      return;
    }
    const others = this.#cluster.servers.filter(({ pid }) => pid !== undefined && pid !== server.pid);
    if (server.pid !== undefined && others.length === 0)
      throw new OrderRefused(409, "this is the last running server; it stays");
    server.kill();
    this.#note(`${name} was killed; it returns in 3 s`);
  }

  traffic({ requestsPerSecond }: TrafficOrder): void {
    this.#mustBeOpen();
    this.#rate = requestsPerSecond;
    this.#note(`the traffic is ${requestsPerSecond} requests a second`);
  }

  policy({ policy }: PolicyOrder): void {
    this.#mustBeOpen();
    if (policy === this.#policy) return;
    this.#policy = policy;
    this.#changed.abort();
    this.#note(`the policy is ${policy}; caches and prefix index are emptied`);
  }

  async wave({ count }: WaveOrder): Promise<void> {
    const problem = await this.#mustBeOpen().send(count);
    if (problem !== undefined) throw new OrderRefused(409, problem);
    this.#note(`a wave of ${count} messages is in the queue`);
  }

  #mustBeOpen(): DemoWave {
    if (this.#wave === undefined) throw new OrderRefused(409, NOT_YET);
    return this.#wave;
  }
}
