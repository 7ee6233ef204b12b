import { z } from "zod";
import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { defineGate, type GateDefinition, type GateSpec } from "../../base/plugin/gate.ts";
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
import { metricGate } from "../gates/metric-gate.ts";
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
  /** The page of metrics of the gateway with its saturation; or the room that the gateway in this process leaves. */
  readonly from: { readonly url: string } | { readonly room: RoomForBatches };
}

/** What the gateway leaves to batches now. */
export type RoomForBatches = () => {
  /** The most requests of batches that may be under way; NaN = the gateway does not know. */
  readonly requests: number;
  /** Requests that the model servers run at once, as far as is known, >= 1: max_SYS. */
  readonly size: number;
  /** When that was so, Unix milliseconds. */
  readonly at: number;
};

/** The metric with the saturation of a pool on the page of a gateway. */
const SATURATION_METRIC = "llm_d_epp_flow_control_pool_saturation";
const OWN_GATE = "gateway-room";
/** Milliseconds for a look at the memory of the process, and the age at which a figure counts no more. */
const LOOK = 1000;
const OLDEST = 10_000;

/** The dispatcher of the batches that one process works on. */
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
      definitions: [...VERDICT_GATES, ...METRIC_GATES, ...ownGates(settings.gate)],
      sources: METRIC_SOURCES,
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
        because: "Sluice sends a line when a worker is free",
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
  if ("room" in from) return { type: OWN_GATE, parameters: {} };
  return {
    type: "endpoint-scrape",
    parameters: { url: from.url, metric: SATURATION_METRIC, baseline, metric_lag: "0s", max_sample_age: "10s" },
  };
}

/** The gate of a gateway in this process, which says how many requests of batches fit: N, so that D = B + N / max_SYS. */
function ownGates(gate: BatchGate | undefined): readonly GateDefinition[] {
  if (gate === undefined || !("room" in gate.from)) return [];
  const { baseline, from } = gate;
  const { room } = from;
  return [
    defineGate({
      type: OWN_GATE,
      describe: "Open while the gateway in this process has room for requests of batches.",
      parameters: z.strictObject({}),
      create: (_, context) =>
        metricGate(
          {
            ...{ type: OWN_GATE, pool: "", baseline, fallback: 0, limit: LOOK, close: async () => {} },
            settings: { max_sample_age: OLDEST, metric_lag: 0, unit: "requests", max_sys: undefined, fallback: 0 },
            async look() {
              const { requests, size, at } = room();
              if (!Number.isFinite(requests))
                throw new SluiceError("METRIC_SOURCE", "the gateway does not know its free room");
              // Before its size is known, a pool has room for more than the size so far.
              const maxSys = Math.max(size, requests / (1 - baseline));
              const budget = baseline + requests / maxSys;
              return {
                budget,
                problem: "",
                kind: "queue-only",
                maxSys,
                sampleTime: Math.min(at, context.clock.wall()),
              };
            },
          },
          context,
        ),
    }),
  ];
}
