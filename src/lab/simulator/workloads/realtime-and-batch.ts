import { poissonArrivals } from "./arrivals.ts";
import { drawTokens, numberedRandom, type TokenLengths } from "./draws.ts";
import { FLOW_POLICIES } from "./flow-policies.ts";
import { joined, randomText } from "./prompt-text.ts";
import type { Workload, WorkloadDefinition, WorkloadPort, WorkloadRequest, WorkloadSettings } from "./workload.ts";

const SYSTEM_TOKENS = 512;
const QUESTION: TokenLengths = { mean: 500, sigma: 0.7, least: 16, most: 8000 };
const ANSWER: TokenLengths = { mean: 200, sigma: 0.7, least: 1, most: 1000 };

/** Batch requests per server, in flight or waiting for their next try: more than fit the server. */
const BATCH_PER_SERVER = 96;
const BATCH_PRIORITY = -1;
const BATCH_QUESTION: TokenLengths = { mean: 2000, sigma: 0.5, least: 64, most: 16_000 };
const BATCH_ANSWER: TokenLengths = { mean: 400, sigma: 0.5, least: 16, most: 2000 };
/** Milliseconds in which the backlog starts: dispatchers do not send all requests in one moment. */
const RAMP_MS = 10_000;
/** Milliseconds until a refused request is sent again: this long, or up to twice as long. */
const PAUSE_MS = 2000;

/**
 * Traffic of people at 40 to 50 % of the servers' limit (148 requests/s of it alone), and a backlog that uses all remaining
 * capacity. A fixed number of backlog requests is always in flight or waiting for a retry, until the end of the run. The order
 * of the batch requests depends on answers; the content of the n-th batch request does not.
 */
export const REALTIME_AND_BATCH: WorkloadDefinition = {
  name: "realtime-and-batch",
  about:
    "realtime requests at 40-50 % of what the servers can do beside an endless sheddable backlog: shows whether the backlog slows realtime requests",
  rates: [60, 67, 74],
  rateUnit: "realtime requests/s",
  servers: 8,
  preset: "qwen3-32b-2xh100",
  durationMs: 45_000,
  make: (settings) => realtimeAndBatch(settings, {}, { priority: BATCH_PRIORITY }),
};

/**
 * The same traffic with the priorities and fairness IDs that flow control needs. An evicted request of the backlog comes back
 * as a refused one does.
 */
export const REALTIME_WITH_BATCH: WorkloadDefinition = {
  ...REALTIME_AND_BATCH,
  name: "realtime-with-batch",
  about:
    "the traffic of `realtime-and-batch` with priorities 100 and -10: shows what flow control and eviction do for realtime, and what they leave for the backlog",
  policies: FLOW_POLICIES,
  make: (settings) =>
    realtimeAndBatch(settings, { priority: 100, tenant: "realtime" }, { priority: -10, tenant: "batch" }),
};

type Class = Pick<WorkloadRequest, "priority" | "tenant">;

function realtimeAndBatch({ rate, durationMs, servers }: WorkloadSettings, realtime: Class, batch: Class): Workload {
  return {
    start(port) {
      const { random } = port;
      const backlog = new Backlog(port, durationMs, random.below(2 ** 32), batch);
      const system = randomText(random, SYSTEM_TOKENS);
      backlog.open(BATCH_PER_SERVER * servers, Math.min(RAMP_MS, durationMs));
      poissonArrivals(port, rate, durationMs, () => {
        const prompt = joined(system, randomText(random, drawTokens(random, QUESTION)));
        port.send({ prompt, outputTokens: drawTokens(random, ANSWER), kind: "realtime", ...realtime });
      });
    },
  };
}

/** Numbered requests, one after the other. */
class Backlog {
  readonly #port: WorkloadPort;
  readonly #untilMs: number;
  readonly #base: number;
  readonly #batch: Class;
  #sent = 0;

  constructor(port: WorkloadPort, untilMs: number, base: number, batch: Class) {
    this.#port = port;
    this.#untilMs = untilMs;
    this.#base = base;
    this.#batch = batch;
  }

  /** Sends `count` requests within `ms` milliseconds, evenly. Afterwards that many are always in flight. */
  open(count: number, ms: number): void {
    this.#next();
    if (count > 1) this.#port.clock.after(ms / count, () => this.open(count - 1, ms - ms / count));
  }

  /** Sends one more request, and another one after its answer. */
  #next(): void {
    const random = numberedRandom(this.#base, this.#sent++);
    const prompt = randomText(random, drawTokens(random, BATCH_QUESTION));
    const outputTokens = drawTokens(random, BATCH_ANSWER);
    const pause = PAUSE_MS * (1 + random.next());
    this.#try({ prompt, outputTokens, ...this.#batch, kind: "batch" }, pause);
  }

  #try(request: WorkloadRequest, pause: number): void {
    const { clock } = this.#port;
    this.#port.send(request, (outcome) => {
      const again = outcome === "rejected";
      if (clock.now() + (again ? pause : 0) >= this.#untilMs) return;
      if (again) clock.after(pause, () => this.#try(request, pause));
      else this.#next();
    });
  }
}
