import { type Clock, delay, type Timer } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { DispatchGate, GateOwner, GateSpec } from "../../base/plugin/gate.ts";
import type { DispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import type { LogFields, Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { noTracing, type Tracing } from "../../base/telemetry/tracing.ts";
import type { Broker, Settlement, SettleOutcome } from "../brokers/broker.ts";
import type { LeaseSettings, PoolSettings, QueueSettings } from "../brokers/settings.ts";
import { Capacity } from "../gates/budget/capacity.ts";
import { RequestCosts } from "../gates/budget/cost.ts";
import { Admission } from "./admission.ts";
import { BrokerHealth } from "./broker-health.ts";
import { BrokerTime } from "./broker-time.ts";
import { Endings } from "./endings.ts";
import { Gatekeeper } from "./gatekeeper.ts";
import { Leases } from "./leases.ts";
import { Line } from "./line.ts";
import type { MakeMergePolicy } from "./merge/merge-policy.ts";
import { QueueSeries } from "./queue-series.ts";
import type { InferenceClient } from "./send/inference-client.ts";
import { SettlementWriter } from "./settlement-writer.ts";
import { SummedLog } from "./summed-log.ts";
import type { TransformChain } from "./transforms/transform.ts";
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
  /** Header that tells the gateway the milliseconds left; undefined = none. */
  readonly deadlineHeader: string | undefined;
  readonly client: InferenceClient;
  readonly transforms: TransformChain;
  readonly mergePolicy: MakeMergePolicy;
  gate(spec: GateSpec | undefined, owner: GateOwner): DispatchGate;
  readonly metrics: DispatchMetrics;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly tracing?: Tracing;
}

/** Milliseconds that writing the last results may take once nothing runs any more (async-processor 8.4). */
const LAST_WRITES = 4000;
/** Milliseconds until retries are looked at again that could not be. */
const MOVE_AGAIN = 1000;

/**
 * The Async Processor: queues, gates, workers and leases joined. A message is always either in the broker or held under a lease
 * that the broker knows, so whatever ends this process loses nothing.
 */
export class Dispatcher {
  readonly pools: readonly WorkerPool[];
  readonly capacities: ReadonlyMap<string, Capacity>;
  readonly writer: SettlementWriter;
  readonly health: BrokerHealth;
  readonly costs = new RequestCosts();
  readonly #options: DispatcherOptions;
  readonly #leases: Leases;
  readonly #lines = new Map<string, Line>();
  readonly #time: BrokerTime;
  readonly #worker: Worker;
  readonly #quietly: RateLimitedLog;
  readonly #summed: SummedLog;
  readonly #broker: Broker;
  readonly #draining = new AbortController();
  readonly #cutOff = new AbortController();
  #mover: Timer | undefined;
  /** When it is armed for; minus infinity while retries are being moved. */
  #moveAt = Number.POSITIVE_INFINITY;
  /** What came due meanwhile: the answer that is under way may not know of it. */
  #moveNext = Number.POSITIVE_INFINITY;
  #stopped = false;

  /** Makes all gates. @throws SluiceError of the gate factory, POOL_UNKNOWN */
  constructor(options: DispatcherOptions) {
    const { clock, log, random, metrics, tracing = noTracing } = options;
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
        // That nothing can be written is the broker's state, and told once (BrokerHealth).
        if (!whole)
          this.#warn(
            "write",
            { problem: messageOf(problem) },
            "some results cannot be written yet; they are kept and tried again",
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
          "leases were lost: other processes have their messages now, and what comes of them here is dropped",
          claim.queue.name,
        ),
      onReleaseFailed: (problem) =>
        this.#warn("release", { problem: messageOf(problem) }, "a gate fails to take back what it had reserved"),
    });
    this.#worker = new Worker({
      ...options,
      broker,
      tracing,
      time: this.#time,
      draining: this.#draining.signal,
      cutOff: this.#cutOff.signal,
    });
    const capacities = new Map<string, Capacity>();
    this.capacities = capacities;
    const pools: WorkerPool[] = [];
    for (const settings of options.pools) {
      const queues = options.queues.filter((queue) => queue.workerPoolId === settings.id);
      // Pools that no queue names get no workers.
      if (queues.length === 0) continue;
      const owner = { queueId: "", queueName: "", poolName: settings.id };
      const poolGate = options.gate(settings.gate, owner);
      const poolSeries = settings.gate === undefined ? undefined : new QueueSeries(metrics, owner);
      const policy = options.mergePolicy(queues, settings.workers);
      const pool = new WorkerPool({
        settings,
        policy,
        leases: this.#leases,
        clock,
        time: this.#time,
        random,
        work: (line, delivery) => this.#worker.work({ line, delivery, poolGate, poolSeries, policy }),
      });
      metrics.poolWorkerLimit.with(settings.id).set(settings.workers);
      log.info(
        { poolID: settings.id, workers: settings.workers, hasGate: settings.gate !== undefined },
        "Spawning workers for pool",
      );
      pools.push(pool);
      for (const queue of queues) {
        const owner = { queueId: queue.id, queueName: queue.name, poolName: settings.id };
        const series = new QueueSeries(metrics, owner);
        const gate = options.gate(queue.gate, owner);
        const own = [...gate.capacities, ...poolGate.capacities].map((source) => {
          const capacity =
            capacities.get(source.key) ??
            new Capacity(source, clock, options.replicas, () => this.#changed(source.key));
          capacities.set(source.key, capacity);
          return capacity;
        });
        const asker = { queueName: queue.name, workers: settings.workers, share: queue.maxQueueShare };
        const endings = new Endings({ writer: this.writer, time: this.#time, random, series });
        const line = new Line({
          queue,
          broker,
          gatekeeper: new Gatekeeper({
            ...{ gate, broker, endings, series, clock, log },
            time: this.#time,
            queueName: queue.name,
          }),
          admission: new Admission([...new Set(own)], asker, this.costs),
          policy,
          leases: this.#leases,
          endings,
          series,
          clock,
          time: this.#time,
          log,
          pollInterval: options.pollInterval,
          batchCap: options.batchCap,
          clogged: () => this.writer.clogged,
          pump: () => pool.pump(),
        });
        this.#lines.set(queue.name, line);
        pool.addLine(line);
      }
    }
    this.pools = pools;
  }

  get lines(): IterableIterator<Line> {
    return this.#lines.values();
  }

  /** Claims held by this process. */
  get claims(): number {
    return this.#leases.size;
  }

  start(): void {
    const { log } = this.#options;
    this.#broker.start({
      available: (queue) => this.#lines.get(queue.name)?.wake(),
      deadLettered: (queue, reason) => {
        this.#lines.get(queue.name)?.series.deadLettered();
        this.#warn(`dead ${queue.name}`, { queue: queue.name, reason }, "an entry went to the dead letters");
      },
      reclaimed: (queue, count) => {
        this.#lines.get(queue.name)?.series.reclaimed(count);
        log.info({ queue: queue.name, count }, "leases ran out; their messages are queued again");
      },
      writeRetried: () => this.#options.metrics.redisWriteRetriesTotal.with().inc(),
      forgotten: (queue, count) => {
        this.#lines.get(queue.name)?.series.leasesRecovered(count);
        this.#summed.add(
          "error",
          "the store has lost data: messages in hand that it has forgotten are kept, and their results are written as recovered",
          queue.name,
          count,
        );
      },
      doubted: () => this.#leases.renewNow(),
    });
    this.#leases.start();
    void this.#moveRetries();
    for (const pool of this.pools) pool.pump();
  }

  /**
   * Ends in two phases: nothing more is claimed and what runs may end; after `drainTimeout` milliseconds, counted from here,
   * what still runs is cut off and goes back to its queue. Whatever was not begun goes back at once.
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
        "the broker is away: what is not written comes back when its leases run out",
      );
    this.#leases.stop();
    this.#summed.flush();
  }

  /** What was in hand is written, or dropped; nothing is dropped without a word. */
  #settled(settlement: Settlement, outcome: Exclude<SettleOutcome, object>): void {
    const { claim, kind } = settlement;
    const line = this.#lines.get(claim.queue.name)!;
    const { series } = line;
    this.#leases.forget(claim);
    series.claimsActive(-1);
    if (kind === "refuse") line.returned();
    // Also when it is said to be fenced: that may be the answer to a repetition.
    if (kind === "retry") this.#moveBy(settlement.due * 1000 - this.#time.now());
    switch (outcome) {
      case "fenced":
        series.fenced("taken");
        this.#summed.add(
          "warn",
          "what came of messages was dropped: other processes have taken them over",
          claim.queue.name,
        );
        return;
      case "answered":
        series.fenced("answered");
        this.#summed.add(
          "warn",
          "what came of messages was dropped: they have their results already",
          claim.queue.name,
        );
        return;
      case "recovered":
        series.recovered();
        if (kind === "dead") series.deadLettered();
        return;
      case "dead-lettered":
        series.deadLettered();
        return;
      case "settled":
        if (kind === "dead") series.deadLettered();
    }
  }

  #warn(key: string, fields: LogFields, message: string): void {
    this.#quietly.log("warn", key, fields, message);
  }

  #changed(key: string): void {
    const concerned: WorkerPool[] = [];
    for (const pool of this.pools) {
      const lines = pool.lines.filter(({ admission }) =>
        admission.capacities.some((capacity) => capacity.source.key === key),
      );
      for (const line of lines) line.changed();
      if (lines.length > 0) concerned.push(pool);
    }
    // Whoever is told first has what became free: begins anywhere, so that no pool always is.
    const first = concerned.length > 1 ? this.#options.random.below(concerned.length) : 0;
    for (let i = 0; i < concerned.length; i++) concerned[(first + i) % concerned.length]!.pump();
  }

  /** Queues retries as they come due, and at least once per poll interval. */
  async #moveRetries(): Promise<void> {
    const { pollInterval } = this.#options;
    this.#moveAt = Number.NEGATIVE_INFINITY;
    this.#moveNext = Number.POSITIVE_INFINITY;
    let next = pollInterval;
    try {
      next = Math.min(pollInterval, await this.#broker.moveDue());
    } catch {
      // However long the idle poll is: there may be some. The broker's state is told by BrokerHealth.
      next = Math.min(pollInterval, MOVE_AGAIN);
    }
    this.#moveAt = Number.POSITIVE_INFINITY;
    this.#moveBy(Math.min(next, this.#moveNext - this.#options.clock.now()));
  }

  /** Sees to it that retries are looked at in `ms` milliseconds at the latest. */
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
