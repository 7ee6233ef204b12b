import type { ResultMessage } from "../../../src/async/brokers/messages/message.ts";
import { parseResult } from "../../../src/async/brokers/messages/result.ts";
import type { SubmitRequest } from "../../../src/async/brokers/queue-client.ts";
import type { LeaseSettings, PoolSettings, QueueSettings } from "../../../src/async/brokers/settings.ts";
import { Dispatcher, type DispatcherOptions } from "../../../src/async/dispatch/dispatcher.ts";
import { mergePolicy } from "../../../src/async/dispatch/merge/policy-file.ts";
import type {
  GatewayAnswer,
  InferenceClient,
  OutboundRequest,
} from "../../../src/async/dispatch/send/inference-client.ts";
import { requestTransforms } from "../../../src/async/dispatch/transforms/transforms-file.ts";
import { OPEN_GATE } from "../../../src/async/gates/factory.ts";
import { SeededRandom } from "../../../src/base/clock/random.ts";
import { VirtualClock } from "../../../src/base/clock/virtual.ts";
import type { CapacityReading, DispatchGate, GateOwner, GateSpec } from "../../../src/base/plugin/gate.ts";
import { createDispatchMetrics } from "../../../src/base/telemetry/dispatch-metrics.ts";
import { render } from "../../../src/base/telemetry/exposition.ts";
import { silentLogger } from "../../../src/base/telemetry/logger.ts";
import { MetricsRegistry } from "../../../src/base/telemetry/registry.ts";
import { MemoryBroker } from "../brokers/memory/broker.ts";
import { MemoryProducer } from "../brokers/memory/producer.ts";
import { MemoryStore } from "../brokers/memory/store.ts";

export const EPOCH = 1_700_000_000_000;

export function queueSettings(name = "q", over: Partial<QueueSettings> = {}): QueueSettings {
  return {
    ...{ id: name, name, workerPoolId: "default", inferenceObjective: "", igwBaseUrl: "http://gateway" },
    ...{ requestPathUrl: "/v1/completions", labels: {}, gate: undefined, resultQueueName: undefined },
    ...{ trustMessageLabels: true, allowedEndpoints: undefined, maxQueueShare: 1 },
    ...over,
  };
}

export const OK: GatewayAnswer = {
  ...{ kind: "response", status: 200, body: Buffer.from('{"ok":true}'), contentType: "application/json" },
  ...{ retryAfterMs: undefined, dropReason: "" },
};

export function answer(status: number, over: Partial<GatewayAnswer & { kind: "response" }> = {}): GatewayAnswer {
  return { ...OK, status, body: Buffer.from(`{"status":${status}}`), ...over } as GatewayAnswer;
}

/** A gateway in virtual time: every request takes `latency`, and is answered by `reply`. */
export class FakeGateway implements InferenceClient {
  readonly requests: (OutboundRequest & { readonly at: number })[] = [];
  latency = 0;
  running = 0;
  peak = 0;
  reply: (request: OutboundRequest, attempt: number) => GatewayAnswer = () => OK;
  readonly #clock: VirtualClock;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  send(request: OutboundRequest, signal: AbortSignal): Promise<GatewayAnswer> {
    this.requests.push({ ...request, at: this.#clock.now() });
    const attempt = this.requests.length;
    this.peak = Math.max(this.peak, ++this.running);
    return new Promise((resolve) => {
      const end = (answered: GatewayAnswer): void => {
        this.running--;
        timer.cancel();
        signal.removeEventListener("abort", onAbort);
        resolve(answered);
      };
      const onAbort = (): void => end({ kind: "aborted" });
      const timer =
        this.latency < request.timeoutMs
          ? this.#clock.after(this.latency, () => end(this.reply(request, attempt)))
          : this.#clock.after(request.timeoutMs, () => end({ kind: "timeout", message: "no answer in time" }));
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  async close(): Promise<void> {}

  /** Ids of the requests in the order they came. */
  get ids(): string[] {
    return this.requests.map(({ headers }) => headers[headers.indexOf("x-request-id") + 1]!);
  }
}

/** A capacity whose figure the test sets. */
export class FakeCapacity {
  reading: CapacityReading;
  reads = 0;
  readonly key: string;
  readonly #clock: VirtualClock;

  constructor(clock: VirtualClock, over: Partial<CapacityReading> = {}, key = "capacity") {
    this.#clock = clock;
    this.key = key;
    this.reading = {
      ...{ readable: true, problem: "", budget: 1, baseline: 0, maxSys: undefined, unit: "requests" },
      ...{ kind: "occupancy", sampleTime: clock.wall(), value: 1, threshold: 0 },
      ...over,
    } as CapacityReading;
  }

  /** A new sample, taken now. */
  sample(over: Partial<CapacityReading> = {}): void {
    this.reading = { ...this.reading, sampleTime: this.#clock.wall(), ...over };
  }

  read(): Promise<CapacityReading> {
    this.reads++;
    return Promise.resolve(this.reading);
  }

  gate(): DispatchGate {
    return {
      capacities: [this],
      budget: async () => (this.reading.readable ? Math.max(0, this.reading.budget - this.reading.baseline) : 0),
      apply: () => ({ kind: "continue" }),
    };
  }
}

export interface HarnessOptions
  extends Partial<Pick<DispatcherOptions, "requestTimeout" | "batchCap" | "replicas" | "pollInterval" | "log">> {
  readonly queues?: readonly QueueSettings[];
  readonly pools?: readonly PoolSettings[];
  readonly workers?: number;
  readonly leases?: Partial<LeaseSettings>;
  /** By queue name, or by pool name for the gate of a pool (as `pool:NAME`). */
  readonly gates?: Readonly<Record<string, DispatchGate>>;
  readonly policy?: DispatcherOptions["mergePolicy"];
  readonly transforms?: DispatcherOptions["transforms"];
  readonly clock?: VirtualClock;
  readonly store?: MemoryStore;
  readonly gateway?: FakeGateway;
}

/** A dispatcher on a memory broker in virtual time. */
export class Harness {
  readonly clock: VirtualClock;
  readonly store: MemoryStore;
  readonly gateway: FakeGateway;
  readonly broker: MemoryBroker;
  readonly dispatcher: Dispatcher;
  readonly registry = new MetricsRegistry();
  readonly producer: MemoryProducer;
  readonly #queues: readonly QueueSettings[];

  constructor(options: HarnessOptions = {}) {
    this.clock = options.clock ?? new VirtualClock(EPOCH);
    this.store = options.store ?? new MemoryStore(this.clock);
    this.gateway = options.gateway ?? new FakeGateway(this.clock);
    this.#queues = options.queues ?? [queueSettings()];
    const leases = { claimTtl: 60_000, reclaimInterval: 5000, maxAttempts: 0, ...options.leases };
    const random = new SeededRandom(7);
    const pollInterval = options.pollInterval ?? 1000;
    this.broker = new MemoryBroker(
      { queues: this.#queues, resultQueueName: "results", leases, pollInterval },
      this.store,
    );
    this.producer = new MemoryProducer(
      { requestQueueName: this.#queues[0]!.name, resultQueueName: "results" },
      this.store,
      random,
    );
    this.dispatcher = new Dispatcher({
      broker: this.broker,
      queues: this.#queues,
      pools: options.pools ?? [{ id: "default", workers: options.workers ?? 8, gate: undefined }],
      leases,
      pollInterval,
      batchCap: options.batchCap,
      replicas: options.replicas ?? 1,
      requestTimeout: options.requestTimeout ?? 300_000,
      deadlineHeader: undefined,
      client: this.gateway,
      transforms: options.transforms ?? requestTransforms(undefined, random),
      mergePolicy: options.policy ?? mergePolicy(undefined, random),
      gate: (_: GateSpec | undefined, owner: GateOwner) =>
        options.gates?.[owner.queueName === "" ? `pool:${owner.poolName}` : owner.queueName] ?? OPEN_GATE,
      metrics: createDispatchMetrics(this.registry),
      clock: this.clock,
      random,
      log: options.log ?? silentLogger,
    });
  }

  /** Unix seconds from now. */
  in(seconds: number): number {
    return Math.floor(this.clock.wall() / 1000) + seconds;
  }

  async submit(id: string, over: Partial<SubmitRequest> = {}): Promise<void> {
    await this.producer.submitRequest({ id, deadline: this.in(3600), payload: { prompt: id }, ...over });
  }

  async submitMany(count: number, over: Partial<SubmitRequest> = {}, prefix = "m"): Promise<void> {
    await this.producer.submitRequests(
      Array.from({ length: count }, (_, i) => ({
        id: `${prefix}${i}`,
        deadline: this.in(3600),
        payload: { prompt: "x" },
        ...over,
      })),
    );
  }

  start(): void {
    this.dispatcher.start();
  }

  async run(ms: number): Promise<void> {
    await this.clock.advanceAsync(ms);
  }

  results(queue = "results"): ResultMessage[] {
    return this.store.results(queue).map((text) => parseResult(text));
  }

  /** Results by id; a second result for an id is an error. */
  resultOf(id: string, queue = "results"): ResultMessage | undefined {
    const found = this.results(queue).filter((result) => result.id === id);
    if (found.length > 1) throw new Error(`${found.length} results for ${id}`);
    return found[0];
  }

  /** The value of a series of this name whose labels contain the text; NaN when there is none. */
  metric(name: string, labels = ""): number {
    for (const line of render(this.registry).split("\n")) {
      if (!line.startsWith(`llm_d_async_async_${name}`) || !line.includes(labels)) continue;
      const rest = line.slice(`llm_d_async_async_${name}`.length);
      if (rest.startsWith("{") || rest.startsWith(" ")) return Number(line.slice(line.lastIndexOf(" ") + 1));
    }
    return Number.NaN;
  }
}
