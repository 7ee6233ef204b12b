import { z } from "zod";
import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { defineMetricSource, type GateSpec, type MetricSourceDefinition } from "../../base/plugin/gate.ts";
import type { DispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { QueueSettings } from "../brokers/settings.ts";
import { BacklogPoller } from "../dispatch/backlog-poller.ts";
import { Dispatcher } from "../dispatch/dispatcher.ts";
import { mergePolicy } from "../dispatch/merge/policy-file.ts";
import type { ClientTls } from "../dispatch/send/client-tls.ts";
import type { InferenceClient } from "../dispatch/send/inference-client.ts";
import { undiciClient } from "../dispatch/send/undici-client.ts";
import { GateSeries } from "../dispatch/series.ts";
import { requestTransforms } from "../dispatch/transforms/transforms-file.ts";
import { reasons } from "../dispatch/views.ts";
import { METRIC_GATES, METRIC_SOURCES, VERDICT_GATES } from "../gates/builtin-gates.ts";
import { GateFactory } from "../gates/factory.ts";
import type { GateState } from "./batch-store.ts";
import { LANES } from "./batch-table.ts";
import { laneQueue } from "./batch-task.ts";
import { LineBroker } from "./line-broker.ts";
import type { LineQueue } from "./line-queue.ts";

const POOL = "batch";
/** Milliseconds between claims of an idle queue. */
const POLL = 1000;
/** Milliseconds between two looks at the backlog for the metrics. */
const BACKLOG = 1000;
/** The dispatcher wants times of leases; those of lines cannot run out. */
const LEASES = { claimTtl: 60_000, reclaimInterval: 5_000, maxAttempts: 0 };

/** How the lines of batches reach the model servers. */
export interface BatchDispatchSettings {
  /** Absolute, http or https: the gateway that gets the requests. */
  readonly gateway: string;
  /** The key that it asks for; undefined = none. */
  readonly gatewayKey: string | undefined;
  readonly tls: ClientTls;
  /** Most requests at a time. */
  readonly workers: number;
  /** Milliseconds for one attempt. */
  readonly requestTimeout: number;
  /** Undefined = requests go whenever a worker is free. */
  readonly gate: BatchGate | undefined;
}

/** What the process around a dispatcher of batches brings. */
export interface BatchDispatchDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  /** Of a dispatcher, with a queue for each lane of batches. */
  readonly metrics: DispatchMetrics;
  /** Receives the milliseconds of each attempt at the gateway. */
  readonly onLatency?: ((milliseconds: number) => void) | undefined;
  /** Sends the requests; absent = HTTP. */
  readonly client?: InferenceClient;
}

/** What a gate knows of the load of the model servers. */
export interface BatchGate {
  /** The share that stays free for other requests, 0 to below 1. */
  readonly baseline: number;
  /** The page of metrics of the gateway with its saturation; or the saturation of the gateway in this process. */
  readonly from: { readonly url: string } | { readonly saturation: Saturation };
}

/** The saturation of the gateway, 0..1 and above, with the time of the figure in Unix milliseconds. */
export type Saturation = () => { readonly value: number; readonly at: number };

/** The metric with the saturation of a pool on the page of a gateway. */
const SATURATION_METRIC = "llm_d_epp_flow_control_pool_saturation";
const OWN_SOURCE = "gateway-saturation";

/** The dispatcher of the batches of one folder. */
export class BatchDispatch {
  readonly dispatcher: Dispatcher;
  readonly #settings: BatchDispatchSettings;
  readonly #clock: Clock;
  readonly #backlog: BacklogPoller;
  readonly #closers: (() => Promise<void> | void)[];

  /** @throws SluiceError GATE_PARAMETERS */
  constructor(queue: LineQueue, settings: BatchDispatchSettings, deps: BatchDispatchDeps) {
    const { clock, random, log, metrics } = deps;
    this.#settings = settings;
    this.#clock = clock;
    const gates = new GateFactory({
      definitions: [...VERDICT_GATES, ...METRIC_GATES],
      sources: [...METRIC_SOURCES, ...ownSources(settings.gate)],
      ...{ clock, random, log },
      figures: (owner) => new GateSeries(metrics, owner),
      prometheusUrl: undefined,
      cacheTtl: 0,
      allowUnknown: false,
    });
    const client = deps.client ?? undiciClient({ totalWorkers: settings.workers, tls: settings.tls, clock });
    const queues = queuesOf(settings);
    const broker = new LineBroker(queue, { queues, pollInterval: POLL }, deps);
    this.#closers = [() => broker.close(), () => client.close(), () => gates.close()];
    this.dispatcher = new Dispatcher({
      ...{ broker, clock, random, log, metrics, client, queues },
      ...(deps.onLatency && { onLatency: deps.onLatency }),
      pools: [{ id: POOL, workers: settings.workers, gate: gateSpec(settings.gate) }],
      leases: LEASES,
      pollInterval: POLL,
      batchCap: undefined,
      replicas: 1,
      requestTimeout: settings.requestTimeout,
      deadlineHeader: undefined,
      gatewayKey: settings.gatewayKey,
      transforms: requestTransforms(undefined, random),
      mergePolicy: mergePolicy(undefined, random),
      gate: (spec, owner) => gates.make(spec, owner),
    });
    this.#backlog = new BacklogPoller({
      ...{ broker, metrics, clock, consumers: this.dispatcher.consumers, interval: BACKLOG },
    });
  }

  start(): void {
    this.dispatcher.start();
    this.#backlog.start();
  }

  /** Whether lines may go now, and why not. */
  get state(): GateState {
    const { workers } = this.#settings;
    const running = this.dispatcher.pools.reduce((sum, pool) => sum + pool.running, 0);
    const [capacity] = this.dispatcher.capacities.values();
    if (capacity === undefined)
      return {
        state: "none",
        because: "lines go whenever a worker is free",
        budget: null,
        baseline: null,
        running,
        workers,
      };
    const { budget, baseline } = capacity.reading;
    const because = reasons(capacity, this.#clock.wall());
    return {
      state: capacity.state,
      because,
      budget: Number.isFinite(budget) ? budget : null,
      baseline,
      running,
      workers,
    };
  }

  /** Ends requests within `drainTimeout` milliseconds; those that run longer go back into the queue. */
  async stop(drainTimeout: number): Promise<void> {
    this.#backlog.stop();
    await this.dispatcher.stop(drainTimeout);
    for (const close of this.#closers.splice(0)) await close();
  }
}

function queuesOf({ gateway }: BatchDispatchSettings): readonly QueueSettings[] {
  return Array.from({ length: LANES }, (_, lane) => ({
    ...{ id: laneQueue(lane), name: laneQueue(lane), workerPoolId: POOL, inferenceObjective: "" },
    ...{ igwBaseUrl: gateway, requestPathUrl: "/v1/chat/completions", labels: {}, gate: undefined },
    ...{ resultQueueName: undefined, trustMessageLabels: false, allowedEndpoints: undefined, maxQueueShare: 1 },
  }));
}

function gateSpec(gate: BatchGate | undefined): GateSpec | undefined {
  if (gate === undefined) return undefined;
  const { baseline, from } = gate;
  // A figure of this process has no lag.
  if ("saturation" in from)
    return {
      type: "metric-budget",
      parameters: {
        source: { type: OWN_SOURCE },
        value: "saturation",
        baseline,
        metric_lag: "0s",
        max_sample_age: "10s",
      },
    };
  return {
    type: "endpoint-scrape",
    parameters: { url: from.url, metric: SATURATION_METRIC, baseline, metric_lag: "0s", max_sample_age: "10s" },
  };
}

function ownSources(gate: BatchGate | undefined): readonly MetricSourceDefinition[] {
  if (gate === undefined || !("saturation" in gate.from)) return [];
  const { saturation } = gate.from;
  return [
    defineMetricSource({
      type: OWN_SOURCE,
      describe: "The saturation of the gateway in this process.",
      parameters: z.strictObject({}),
      create: () => ({
        async query() {
          const { value, at } = saturation();
          if (!Number.isFinite(value))
            throw new SluiceError("METRIC_SOURCE", "the gateway does not know its saturation");
          return { samples: [{ labels: {}, value }], time: at };
        },
      }),
    }),
  ];
}
