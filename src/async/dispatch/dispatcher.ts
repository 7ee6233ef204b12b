import { type Clock, delay, type Timer } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { CapacitySource, DispatchGate, GateOwner, GateSpec } from "../../base/plugin/gate.ts";
import type { DispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import type { LogFields, Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { noTracing, type Tracing } from "../../base/telemetry/tracing.ts";
import type { Broker, Settlement, SettleOutcome } from "../brokers/broker.ts";
import type { LeaseSettings, PoolSettings, QueueSettings } from "../brokers/settings.ts";
import { SharedCapacity } from "../gates/budget/capacity.ts";
import { RequestCosts } from "../gates/budget/cost.ts";
import { Admission } from "./admission.ts";
import { BrokerHealth } from "./broker-health.ts";
import { BrokerTime } from "./broker-time.ts";
import { GateRunner } from "./gate-runner.ts";
import { Leases } from "./leases.ts";
import type { MakeMergePolicy, MergePolicy } from "./merge/merge-policy.ts";
import { Outcomes } from "./outcomes.ts";
import { QueueConsumer } from "./queue-consumer.ts";
import type { InferenceClient } from "./send/inference-client.ts";
import { QueueSeries } from "./series.ts";
import { SettlementWriter } from "./settlement-writer.ts";
import { SummedLog } from "./summed-log.ts";
import type { RequestTransform } from "./transforms/transform.ts";
import { Worker } from "./worker.ts";
import { WorkerPool } from "./worker-pool.ts";

export interface DispatcherOptions {
  readonly broker: Broker;
  readonly queues: readonly QueueSettings[];
  readonly pools: readonly PoolSettings[];
  readonly leases: LeaseSettings;
  readonly pollInterval: number;
  readonly batchCap: number | undefined;
  /** Dispatchers that share the capacities, >= 1. */
  readonly replicas: number;
  /** Milliseconds per attempt. */
  readonly requestTimeout: number;
  /** Header with the milliseconds that are left; undefined = none. */
  readonly deadlineHeader: string | undefined;
  /** The key that gateways ask for; absent = none. */
  readonly gatewayKey?: string | undefined;
  readonly client: InferenceClient;
  readonly transforms: RequestTransform;
  readonly mergePolicy: MakeMergePolicy;
  gate(spec: GateSpec | undefined, owner: GateOwner): DispatchGate;
  readonly metrics: DispatchMetrics;
  /** Receives the milliseconds of each attempt; absent = nobody does. */
  readonly onLatency?: (milliseconds: number) => void;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly tracing?: Tracing;
}

/** Milliseconds for writing the last results, after the last request has ended (async-processor 8.4). */
const LAST_WRITES = 4000;
/** Milliseconds until retries are tried again that could not be moved. */
const MOVE_AGAIN = 1000;

/** Why an outcome was dropped, for metrics and the log. */
const DROPPED = {
  fenced: {
    reason: "taken",
    message: "dropped outcomes: other processes have taken over the messages",
  },
  answered: { reason: "answered", message: "dropped outcomes: the messages already have results" },
} as const;

/** A queue's consumer and the pool that it works for. */
interface Consumption {
  readonly consumer: QueueConsumer;
  readonly pool: WorkerPool;
}

/**
 * The Async Processor: connects queues, gates, workers and leases. A message is always either in the broker or held under a
 * lease that the broker knows, so the end of this process loses no message.
 */
export class Dispatcher {
  readonly pools: readonly WorkerPool[];
  readonly capacities = new Map<string, SharedCapacity>();
  readonly writer: SettlementWriter;
  readonly health: BrokerHealth;
  readonly costs = new RequestCosts();
  readonly #options: DispatcherOptions;
  readonly #leases: Leases;
  /** By the name of the queue. */
  readonly #queues = new Map<string, Consumption>();
  /** The pools and consumers that spend each capacity, by its key and by pool. */
  readonly #spenders = new Map<string, { readonly pool: WorkerPool; readonly consumers: QueueConsumer[] }[]>();
  readonly #time: BrokerTime;
  readonly #quietly: RateLimitedLog;
  readonly #summed: SummedLog;
  readonly #broker: Broker;
  readonly #draining = new AbortController();
  readonly #cutOff = new AbortController();
  #mover: Timer | undefined;
  /** The moment for which the timer is set; minus infinity while retries are being moved. */
  #moveAt = Number.POSITIVE_INFINITY;
  /** The earliest retry that was added meanwhile: the answer under way may not contain it. */
  #moveNext = Number.POSITIVE_INFINITY;
  #stopped = false;

  /** Makes all gates. @throws SluiceError of the gate factory, POOL_UNKNOWN */
  constructor(options: DispatcherOptions) {
    const { clock, log, metrics, tracing = noTracing } = options;
    this.#options = options;
    this.#quietly = new RateLimitedLog(log, clock, { intervalMs: 10_000, maxKeys: 100 });
    this.#summed = new SummedLog(log, clock);
    this.health = new BrokerHealth(options.broker, clock, log);
    const broker = this.health.watch();
    this.#broker = broker;
    this.#time = new BrokerTime(clock);
    this.writer = new SettlementWriter({
      broker,
      clock,
      onSettled: (settlement, outcome) => this.#settled(settlement, outcome),
      onRetry: (problem, whole) => {
        metrics.redisWriteRetriesTotal.with().inc();
        // BrokerHealth reports, once, that the broker takes no writes.
        if (!whole)
          this.#warn(
            "write",
            { problem: messageOf(problem) },
            "some results cannot be written yet; Sluice keeps the results and tries again",
          );
      },
    });
    this.#leases = new Leases({
      broker,
      clock,
      settings: options.leases,
      draining: this.#draining.signal,
      onLost: (claim) =>
        this.#summed.add(
          "warn",
          "this process lost leases: other processes now have the messages, and this process drops its outcomes",
          claim.queue.name,
        ),
      onReleaseFailed: (problem, gate) =>
        this.#warn(
          `release ${gate}`,
          { gate, problem: messageOf(problem) },
          "could not release a gate reservation; the gate may count requests that have ended",
        ),
    });
    this.pools = options.pools.flatMap((settings) => {
      const queues = options.queues.filter((queue) => queue.workerPoolId === settings.id);
      // Pools that no queue names get no workers.
      return queues.length === 0 ? [] : [this.#makePool(settings, queues, tracing)];
    });
  }

  get consumers(): readonly QueueConsumer[] {
    return [...this.#queues.values()].map(({ consumer }) => consumer);
  }

  /** Claims held by this process. */
  get claims(): number {
    return this.#leases.size;
  }

  start(): void {
    const { log } = this.#options;
    this.#broker.start({
      available: (queue) => {
        const { consumer, pool } = this.#of(queue);
        consumer.announced();
        pool.turn();
      },
      deadLettered: (queue, reason) => {
        this.#of(queue).consumer.series.deadLettered();
        this.#warn(`dead ${queue.name}`, { queue: queue.name, reason }, "an entry became a dead letter");
      },
      reclaimed: (queue, count) => {
        this.#of(queue).consumer.series.reclaimed(count);
        log.info({ queue: queue.name, count }, "leases expired; the messages are back in their queue");
      },
      writeRetried: () => this.#options.metrics.redisWriteRetriesTotal.with().inc(),
      forgotten: (queue, count) => {
        this.#of(queue).consumer.series.leasesRecovered(count);
        this.#summed.add(
          "error",
          "the store has lost data: this process keeps the messages it has claimed, and marks their results as recovered",
          queue.name,
          count,
        );
      },
      doubted: () => this.#leases.renewNow(),
    });
    this.#leases.start();
    void this.#moveRetries();
    for (const pool of this.pools) pool.turn();
  }

  /**
   * Ends in two phases. First, nothing more is claimed, messages that were not begun go back at once, and running requests may
   * end. After `drainTimeout` milliseconds from the call, running requests are cut off and their messages go back to their
   * queues.
   */
  async stop(drainTimeout: number): Promise<void> {
    const { clock, log } = this.#options;
    this.#stopped = true;
    this.#mover?.cancel();
    this.#draining.abort();
    const limit = clock.after(drainTimeout, () => this.#cutOff.abort());
    const idle = Promise.all(
      this.pools.map(async (pool) => {
        await pool.stop();
        await pool.idle();
      }),
    );
    const cutOff = new Promise<void>((resolve) =>
      this.#cutOff.signal.addEventListener("abort", () => resolve(), { once: true }),
    );
    await Promise.race([idle, cutOff]);
    limit.cancel();
    const late = new AbortController();
    await Promise.race([idle.then(() => this.writer.idle()), delay(clock, LAST_WRITES, late.signal).catch(() => {})]);
    late.abort();
    if (this.writer.pending > 0)
      log.error(
        { pending: this.writer.pending },
        "the store of the queues does not answer: messages without a written outcome return to their queues when their leases expire",
      );
    this.#leases.stop();
    this.#summed.flush();
  }

  #of(queue: QueueSettings): Consumption {
    return this.#queues.get(queue.name)!;
  }

  #makePool(settings: PoolSettings, queues: readonly QueueSettings[], tracing: Tracing): WorkerPool {
    const { options, broker, time } = { options: this.#options, broker: this.#broker, time: this.#time };
    const { clock, log, random, metrics } = options;
    const owner = { queueId: "", queueName: "", poolName: settings.id };
    const gate = options.gate(settings.gate, owner);
    const series = settings.gate === undefined ? undefined : new QueueSeries(metrics, owner);
    const runner = new GateRunner({ gate, place: "pool", name: settings.id, series, broker, clock, time, log });
    const policy = options.mergePolicy(queues, settings.workers);
    const worker = new Worker({
      ...options,
      ...{ broker, tracing, time, policy, gate: runner },
      cutOff: this.#cutOff.signal,
    });
    const pool = new WorkerPool({
      ...{ settings, policy, worker, leases: this.#leases, clock, time, random },
      writer: this.writer,
      batchCap: options.batchCap,
    });
    metrics.poolWorkerLimit.with(settings.id).set(settings.workers);
    log.info(
      { poolID: settings.id, workers: settings.workers, hasGate: settings.gate !== undefined },
      "Spawning workers for pool",
    );
    for (const queue of queues) this.#addConsumer(queue, pool, gate, policy);
    return pool;
  }

  #addConsumer(queue: QueueSettings, pool: WorkerPool, poolGate: DispatchGate, policy: MergePolicy): void {
    const { options, broker, time } = { options: this.#options, broker: this.#broker, time: this.#time };
    const { clock, log, random, metrics, pollInterval, batchCap } = options;
    const owner = { queueId: queue.id, queueName: queue.name, poolName: pool.settings.id };
    const gate = options.gate(queue.gate, owner);
    const series = new QueueSeries(metrics, owner, this.#options.onLatency);
    const capacities = new Set([...gate.capacities, ...poolGate.capacities].map((source) => this.#capacity(source)));
    const asker = { queueName: queue.name, workers: pool.settings.workers, share: queue.maxQueueShare };
    const consumer = new QueueConsumer({
      ...{ queue, broker, policy, series, clock, time, log, pollInterval, batchCap, leases: this.#leases },
      gate: new GateRunner({ gate, place: "queue", name: queue.name, series, broker, clock, time, log }),
      admission: new Admission([...capacities], asker, this.costs),
      outcomes: new Outcomes({ writer: this.writer, time, random, series }),
      onChange: () => pool.turn(),
    });
    this.#queues.set(queue.name, { consumer, pool });
    pool.addConsumer(consumer);
    for (const { source } of capacities) {
      const spenders = this.#spenders.get(source.key)!;
      // Pools are made one after another.
      const last = spenders.at(-1);
      if (last?.pool === pool) last.consumers.push(consumer);
      else spenders.push({ pool, consumers: [consumer] });
    }
  }

  #capacity(source: CapacitySource): SharedCapacity {
    const { clock, replicas } = this.#options;
    let capacity = this.capacities.get(source.key);
    if (capacity === undefined) {
      capacity = new SharedCapacity(source, clock, replicas, () => this.#changed(source.key));
      this.capacities.set(source.key, capacity);
      this.#spenders.set(source.key, []);
    }
    return capacity;
  }

  /** The broker has written or dropped a settlement; each drop is counted and logged. */
  #settled(settlement: Settlement, outcome: Exclude<SettleOutcome, object>): void {
    const { claim, kind } = settlement;
    const { consumer, pool } = this.#of(claim.queue);
    const { series } = consumer;
    this.#leases.forget(claim);
    series.claimsActive(-1);
    if (kind === "refuse") {
      consumer.returned();
      pool.turn();
    }
    // Also for `fenced`, which may be the answer to a repeated call.
    if (kind === "retry") this.#moveBy(settlement.due * 1000 - this.#time.now());
    if (outcome === "fenced" || outcome === "answered") {
      const { reason, message } = DROPPED[outcome];
      series.fenced(reason);
      this.#summed.add("warn", message, claim.queue.name);
      return;
    }
    if (outcome === "recovered") series.recovered();
    if (kind === "dead" || outcome === "dead-lettered") series.deadLettered();
  }

  #warn(key: string, fields: LogFields, message: string): void {
    this.#quietly.log("warn", key, fields, message);
  }

  /** A capacity has room, or another reading: its spenders may claim. */
  #changed(key: string): void {
    const spenders = this.#spenders.get(key) ?? [];
    // The first in the row gets the free room. The row begins at a random pool, so that no pool is always first.
    const first = spenders.length > 1 ? this.#options.random.below(spenders.length) : 0;
    for (let i = 0; i < spenders.length; i++) {
      const { consumers, pool } = spenders[(first + i) % spenders.length]!;
      for (const consumer of consumers) consumer.roomChanged();
      pool.turn();
    }
  }

  /** Queues retries as they come due, and at least once per poll interval. */
  async #moveRetries(): Promise<void> {
    const { pollInterval, clock } = this.#options;
    this.#moveAt = Number.NEGATIVE_INFINITY;
    this.#moveNext = Number.POSITIVE_INFINITY;
    // This call takes place even when the idle poll is long: there may be retries. BrokerHealth reports the broker's state.
    const next = await this.#broker.moveDue().catch(() => MOVE_AGAIN);
    this.#moveAt = Number.POSITIVE_INFINITY;
    this.#moveBy(Math.min(pollInterval, next, this.#moveNext - clock.now()));
  }

  /** Moves retries in `ms` milliseconds at the latest. */
  #moveBy(ms: number): void {
    const { clock } = this.#options;
    const at = clock.now() + Math.max(1, ms);
    if (this.#moveAt === Number.NEGATIVE_INFINITY) this.#moveNext = Math.min(this.#moveNext, at);
    if (this.#stopped || at >= this.#moveAt) return;
    this.#mover?.cancel();
    this.#moveAt = at;
    this.#mover = clock.after(at - clock.now(), () => void this.#moveRetries(), true);
  }
}
