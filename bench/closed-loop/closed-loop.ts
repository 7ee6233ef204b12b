import type { QueueSettings } from "../../src/async/brokers/settings.ts";
import { Dispatcher } from "../../src/async/dispatch/dispatcher.ts";
import { mergePolicy } from "../../src/async/dispatch/merge/policy-file.ts";
import type { GatewayAnswer, InferenceClient } from "../../src/async/dispatch/send/inference-client.ts";
import { requestTransforms } from "../../src/async/dispatch/transforms/transforms-file.ts";
import { METRIC_GATES, METRIC_SOURCES, VERDICT_GATES } from "../../src/async/gates/builtin-gates.ts";
import { GateFactory } from "../../src/async/gates/factory.ts";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { VirtualClock } from "../../src/base/clock/virtual.ts";
import { parseDocument } from "../../src/base/document/parse.ts";
import { OUTCOMES } from "../../src/base/inference/outcomes.ts";
import type { GateSpec } from "../../src/base/plugin/gate.ts";
import { createDispatchMetrics } from "../../src/base/telemetry/dispatch-metrics.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import { MetricsRegistry } from "../../src/base/telemetry/registry.ts";
import { SimEngine } from "../../src/lab/simulator/engine.ts";
import { SimCluster } from "../../src/lab/study/cluster.ts";
import { simRequest } from "../../src/lab/study/run.ts";
import { loadConfig } from "../../src/picker/config/load.ts";
import { PLUGIN_REGISTRY } from "../../src/picker/core/plugins/plugins.ts";
import type { Allowance } from "../../src/picker/flowcontrol/spare-room.ts";
import { MemoryBroker } from "../../test/support/brokers/memory/broker.ts";
import { MemoryProducer } from "../../test/support/brokers/memory/producer.ts";
import { MemoryStore } from "../../test/support/brokers/memory/store.ts";
import { DEFAULT_BASELINE, type RunningBatch, startBatch } from "./batch.ts";
import { FakePrometheus, type PublishedFigures } from "./fake-prometheus.ts";
import { oracleGate } from "./oracle-gate.ts";

/** Requests at a time that one simulated server runs. */
export const SLOTS = 16;
const EPOCH = 1_700_000_000_000;
const QUEUE = "backlog";

export interface ClosedLoop {
  readonly servers: number;
  readonly seed: number;
  /** Milliseconds of virtual time. */
  readonly duration: number;
  /** Mean share of the slots that realtime traffic takes, 0..1. */
  readonly realtimeShare: number;
  /**
   * How the realtime traffic moves around its mean: `wave` (default) rises and falls by half of it, once a minute; `steady` does
   * not; `bursts` has 2 s of three times the mean and then 8 s of half of it.
   */
  readonly shape?: "wave" | "steady" | "bursts";
  /** Output tokens of one request of the backlog; default 200, about 2 s. */
  readonly lineTokens?: number;
  /**
   * `none`: no backlog. `open`: a backlog without a gate. `oracle`: a gate that knows the present. `budget`: prometheus-budget.
   * `saturation`: prometheus-saturation with the threshold 1 - B, on requests in flight over slots. `batch`: a batch of the Batch API,
   * with the gate of `sluice gateway --batch` on the saturation of the picker.
   */
  readonly gate: "none" | "open" | "oracle" | "budget" | "saturation" | "batch";
  /** The flow control of the picker, by requests in flight over slots; absent = none, and nothing queues there. */
  readonly flowControl?: PickerQueues;
  /** Workers of the dispatcher; default twice the slots. */
  readonly workers?: number;
  /** `max_sys` of the saturation gate; default: not said. */
  readonly maxSys?: number;
  /** B of the gate, 0..1. */
  readonly baseline?: number;
  /** What Prometheus has; default `running`. */
  readonly published?: PublishedFigures;
  /** Milliseconds between Prometheus' scrapes; default 1,000. */
  readonly scrapeInterval?: number;
  /** `--prometheus-cache-ttl`, milliseconds; default 1,000. */
  readonly cacheTtl?: number;
}

/** What flow control does beyond its defaults. The backlog has priority -1, realtime has 0. */
export interface PickerQueues {
  /** Saturation from which the backlog waits, 0 to below 1 (holdback); absent = both wait from 1 on. */
  readonly ceiling?: number;
  /** Whether the backlog is evicted for realtime requests that wait. */
  readonly eviction: boolean;
}

export interface ClosedLoopResult {
  /** Time to first token of realtime requests, milliseconds, ascending. */
  readonly ttfts: readonly number[];
  /** Backlog requests that ended within the time, and how many ran at most. */
  readonly finished: number;
  readonly peak: number;
  /** Backlog requests that were evicted, and the share of the computed tokens that this wasted, 0..1. */
  readonly evicted: number;
  readonly wasted: number;
  /** Requests in flight over slots, looked at ten times a second while there is a backlog. */
  readonly saturations: readonly number[];
}

/**
 * Servers are picked by what is in flight alone: what is measured here is when work is let in, not where it goes, and a picker
 * that weighs caches leaves some servers full while others have room.
 */
const CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: active-request-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: active-request-scorer
  - pluginRef: max-score-picker
`;

/** The same scheduling with flow control: a server is full with as many requests in flight as it has slots. */
function withFlowControl({ ceiling, eviction }: PickerQueues): string {
  const holdback = `- {type: priority-holdback-policy, parameters: {minCeiling: ${ceiling}}}\n`;
  const detector = `- {type: concurrency-detector, parameters: {maxConcurrency: ${SLOTS}}}\n`;
  const plugins = detector + (ceiling === undefined ? "" : holdback);
  return `${CONFIG.replace("plugins:\n", `featureGates: [flowControl]\nplugins:\n${plugins}`)}flowControl:
  saturationDetector: {pluginRef: concurrency-detector}
  enableEviction: ${eviction}
${ceiling === undefined ? "" : "  usageLimitPolicyPluginRef: priority-holdback-policy\n"}`;
}

/** One realtime request: 256 tokens in, 48 out; about 0.5 s. One of the backlog: 512 in, 200 out; about 2 s. */
const REALTIME = { prompt: 256, maxTokens: 48 };
const BACKLOG = { prompt: 512, maxTokens: 200 };
const REALTIME_SECONDS = 0.51;
const MINUTE = 60_000;
/** The rate of realtime requests over its mean at a time in milliseconds, and the most that it can be. */
const SHAPES = {
  wave: { most: 1.5, at: (now: number) => 1 + 0.5 * Math.sin((2 * Math.PI * now) / MINUTE) },
  steady: { most: 1, at: () => 1 },
  bursts: { most: 3, at: (now: number) => ((now + 5000) % 10_000 < 2000 ? 3 : 0.5) },
};
/** Milliseconds of realtime traffic alone, before there is a backlog and before anything counts. */
export const WARM_UP = 10_000;

/**
 * Realtime traffic and a backlog that never ends on the same simulated servers, in virtual time: the real scheduler, the real
 * dispatcher and its gate, and metrics as old as Prometheus has them. The same input gives the same result.
 */
export async function closedLoop(options: ClosedLoop): Promise<ClosedLoopResult> {
  const { servers, seed, duration, gate, lineTokens = BACKLOG.maxTokens } = options;
  const clock = new VirtualClock(EPOCH);
  const random = new SeededRandom(seed);
  const engines = Array.from(
    { length: servers },
    (_, i) => new SimEngine({ config: { maxNumSeqs: SLOTS }, clock, random: new SeededRandom(seed + i) }),
  );
  const text = options.flowControl === undefined ? CONFIG : withFlowControl(options.flowControl);
  const config = loadConfig(parseDocument(text, { file: "closed loop" }), PLUGIN_REGISTRY);
  const { baseline = DEFAULT_BASELINE } = options;
  const cluster = new SimCluster({ engines, config, clock, random, ...(gate === "batch" && { baseline }) });
  const running = (): boolean => clock.now() < duration;
  cluster.scrape(running);

  const ttfts: number[] = [];
  const tokens = { computed: 0, wasted: 0 };
  const arrivals = new SeededRandom(seed + 1);
  const shape = SHAPES[options.shape ?? "wave"];
  const busiest = ((servers * SLOTS * options.realtimeShare) / REALTIME_SECONDS) * shape.most;
  const arrive = (): void => {
    if (!running()) return;
    clock.after((-Math.log(1 - arrivals.next()) * 1000) / busiest, arrive);
    // Thinned to the rate of the moment.
    if (arrivals.next() * shape.most > shape.at(clock.now())) return;
    const at = clock.now();
    const started = (): void => {
      if (at >= WARM_UP) ttfts.push(clock.now() - at);
    };
    const finished = (work: number): void => {
      tokens.computed += work;
    };
    cluster.submit(simRequest("realtime"), { ...REALTIME, ignoreEos: true }, { started, finished, rejected() {} });
  };
  arrive();

  let batch: RunningBatch | undefined;
  const backlog = { finished: 0, running: 0, peak: 0, evicted: 0 };
  if (gate !== "none") {
    const client: InferenceClient = {
      send: () =>
        new Promise((resolve) => {
          backlog.peak = Math.max(backlog.peak, ++backlog.running);
          const end = (answer: GatewayAnswer): void => {
            backlog.running--;
            resolve(answer);
          };
          cluster[gate === "batch" ? "submitBackground" : "submit"](
            options.flowControl === undefined && gate !== "batch"
              ? simRequest("backlog")
              : { ...simRequest("backlog"), priority: -1, shedAt: 1 },
            { ...BACKLOG, maxTokens: lineTokens, ignoreEos: true },
            {
              finished(work) {
                tokens.computed += work;
                if (running()) backlog.finished++;
                end(answered(200));
              },
              rejected(reason, work) {
                tokens.computed += work;
                tokens.wasted += work;
                if (reason === "evicted") backlog.evicted++;
                end(answered(429, reason === "evicted" ? OUTCOMES.evicted.dropped : ""));
              },
            },
          );
        }),
      close: async () => {},
    };
    clock.advance(WARM_UP);
    if (gate === "batch") {
      const lines = Math.ceil((duration / 1000) * servers * SLOTS * Math.max(1, BACKLOG.maxTokens / lineTokens));
      const allowance = (): Allowance => cluster.allowance()!;
      batch = startBatch({ lines, baseline, workers: options.workers, allowance, clock, client });
    } else await startBacklog(options, clock, engines, client);
  }
  const saturations: number[] = [];
  const look = (): void => {
    if (!running()) return;
    saturations.push(engines.reduce((sum, each) => sum + each.running + each.waiting, 0) / (servers * SLOTS));
    clock.after(100, look);
  };
  look();
  await clock.advanceAsync(duration - clock.now());
  cluster.close();
  batch?.end();
  const { finished, peak, evicted } = backlog;
  const wasted = tokens.wasted / tokens.computed;
  return { saturations, ttfts: ttfts.sort((a, b) => a - b), finished, peak, evicted, wasted };
}

/** A dispatcher with more work than it can ever do. */
async function startBacklog(
  {
    servers,
    seed,
    duration,
    gate,
    baseline = 0.1,
    published = "running",
    scrapeInterval = 1000,
    cacheTtl = 1000,
    workers,
    maxSys,
  }: ClosedLoop,
  clock: VirtualClock,
  engines: readonly SimEngine[],
  client: InferenceClient,
): Promise<void> {
  const random = new SeededRandom(seed + 2);
  const capacity = servers * SLOTS;
  const budget: GateSpec = {
    type: "prometheus-budget",
    parameters: { pool: "sim", max_concurrency: SLOTS, baseline },
  };
  const saturation: GateSpec = {
    type: "prometheus-saturation",
    parameters: { pool: "sim", threshold: 1 - baseline, ...(maxSys === undefined ? {} : { max_sys: maxSys }) },
  };
  const spec = gate === "budget" ? budget : gate === "saturation" ? saturation : undefined;
  const queue: QueueSettings = {
    ...{ id: QUEUE, name: QUEUE, workerPoolId: "default", inferenceObjective: "", igwBaseUrl: "http://sim" },
    ...{ requestPathUrl: "/v1/completions", labels: {}, gate: spec, resultQueueName: undefined },
    ...{ trustMessageLabels: true, allowedEndpoints: undefined, maxQueueShare: 1 },
  };
  const leases = { claimTtl: 60_000, reclaimInterval: 5000, maxAttempts: 0 };
  const store = new MemoryStore(clock);
  const prometheus = new FakePrometheus(clock, engines, published, scrapeInterval);
  prometheus.scrape(() => clock.now() < duration);
  const gates = new GateFactory({
    definitions: [...VERDICT_GATES, ...METRIC_GATES],
    sources: METRIC_SOURCES,
    ...{ clock, random, cacheTtl },
    log: silentLogger,
    figures: () => ({ reading() {} }),
    prometheusUrl: undefined,
    askPrometheus: (promql) => prometheus.answer(promql),
    allowUnknown: false,
  });
  const oracle = oracleGate(clock, engines, baseline);
  const metrics = createDispatchMetrics(new MetricsRegistry());
  const dispatcher = new Dispatcher({
    broker: new MemoryBroker({ queues: [queue], resultQueueName: "results", leases }, store),
    queues: [queue],
    // More workers than there are slots: a gate has to hold them.
    pools: [{ id: "default", workers: workers ?? 2 * capacity, gate: undefined }],
    leases,
    ...{ pollInterval: 1000, batchCap: undefined, replicas: 1, requestTimeout: 600_000, deadlineHeader: undefined },
    ...{ client, clock, random, metrics, log: silentLogger },
    transforms: requestTransforms(undefined, random),
    mergePolicy: mergePolicy(undefined, random),
    gate: (wanted, owner) => (gate === "oracle" && owner.queueName !== "" ? oracle : gates.make(wanted, owner)),
  });
  const producer = new MemoryProducer({ requestQueueName: QUEUE, resultQueueName: "results" }, store, random);
  const deadline = Math.floor(EPOCH / 1000) + 86_400;
  const most = Math.ceil((duration / 1000) * capacity);
  await producer.submitRequests(Array.from({ length: most }, (_, i) => ({ id: `b${i}`, deadline, payload: {} })));
  dispatcher.start();
}

function answered(status: number, dropReason = ""): GatewayAnswer {
  const body = new Uint8Array(0);
  return { kind: "response", status, body, contentType: "application/json", retryAfterMs: undefined, dropReason };
}
