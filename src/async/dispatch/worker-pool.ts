import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Claim } from "../brokers/broker.ts";
import type { PoolSettings } from "../brokers/settings.ts";
import type { BrokerTime } from "./broker-time.ts";
import { planClaims } from "./claim-plan.ts";
import type { Leases } from "./leases.ts";
import type { MergePolicy } from "./merge/merge-policy.ts";
import { BACK, EXPIRED } from "./outcomes.ts";
import type { QueueConsumer } from "./queue-consumer.ts";
import type { SettlementWriter } from "./settlement-writer.ts";
import type { Worker } from "./worker.ts";

/** Milliseconds between checks for claimed messages that expire while all workers are busy. */
const SWEEP = 1000;
/** Messages are claimed ahead for the workers that end within so many milliseconds: about one round trip of a claim. */
const AHEAD_MS = 25;
/** Most messages claimed ahead, per worker. */
const AHEAD_SHARE = 1 / 4;
/** Milliseconds over which the pace of the workers is averaged. */
const PACE_MS = 1000;

/** How fast workers end messages, as a mean that decays with time. */
class Pace {
  readonly #clock: Clock;
  /** Messages per millisecond at `#at`. */
  #rate = 0;
  #at = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  ended(): void {
    this.#rate = this.rate + 1 / PACE_MS;
    this.#at = this.#clock.now();
  }

  /** Messages per millisecond. */
  get rate(): number {
    return this.#rate * Math.exp((this.#at - this.#clock.now()) / PACE_MS);
  }
}

export interface WorkerPoolOptions {
  readonly settings: PoolSettings;
  readonly policy: MergePolicy;
  readonly worker: Worker;
  readonly writer: Pick<SettlementWriter, "full">;
  readonly batchCap: number | undefined;
  readonly leases: Leases;
  readonly clock: Clock;
  readonly time: BrokerTime;
  readonly random: Random;
}

/**
 * The workers of one pool and the consumers of the queues that feed them. In each turn it gives claimed messages to free
 * workers and plans what the consumers claim. Pools share nothing: a pool that is stuck does not hold up another.
 */
export class WorkerPool {
  readonly settings: PoolSettings;
  readonly #options: WorkerPoolOptions;
  readonly #consumers = new Map<string, QueueConsumer>();
  readonly #whenIdle: (() => void)[] = [];
  readonly #pace: Pace;
  #order: QueueConsumer[] = [];
  #running = 0;
  #turning = false;
  #stopped = false;
  #timer: Timer | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #sweptAt = Number.NEGATIVE_INFINITY;

  constructor(options: WorkerPoolOptions) {
    this.settings = options.settings;
    this.#options = options;
    this.#pace = new Pace(options.clock);
  }

  get consumers(): readonly QueueConsumer[] {
    return this.#order;
  }

  /** Messages that a worker has. */
  get running(): number {
    return this.#running;
  }

  addConsumer(consumer: QueueConsumer): void {
    this.#consumers.set(consumer.queue.name, consumer);
    this.#order = [...this.#consumers.values()];
  }

  /** Something changed: hands out claimed messages, and claims more. Many calls in one turn of the event loop are one. */
  turn(): void {
    if (this.#turning || this.#stopped) return;
    this.#turning = true;
    this.#options.clock.soon(() => {
      this.#turning = false;
      if (this.#stopped) return;
      this.#handOut();
      this.#sweep();
      this.#plan();
      this.#turnLater();
    });
  }

  /** Claims nothing more and gives back the messages without a worker; running messages go on. */
  async stop(): Promise<void> {
    const { policy, worker, leases } = this.#options;
    this.#stopped = true;
    this.#timer?.cancel();
    const stopping = this.#order.map((consumer) => consumer.stop());
    worker.stop();
    // Does not wait for the consumers: a queue whose broker or gate does not answer must not keep the messages of the others.
    for (const claim of policy.drain()) {
      const consumer = this.#consumerOf(claim);
      consumer.series.depth(-1);
      consumer.settle(leases.get(claim), BACK);
    }
    await Promise.all(stopping);
  }

  /** Resolves when no worker has a message. */
  async idle(): Promise<void> {
    if (this.#running > 0) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }

  #handOut(): void {
    if (this.#stopped) return;
    const { policy } = this.#options;
    while (this.#running < this.settings.workers) {
      const claim = policy.next();
      if (claim === undefined) return;
      this.#running++;
      void this.#work(claim);
    }
  }

  async #work(claim: Claim): Promise<void> {
    const { worker, leases } = this.#options;
    const consumer = this.#consumerOf(claim);
    const delivery = leases.get(claim);
    consumer.settle(delivery, await worker.work(delivery, consumer));
    this.#running--;
    this.#pace.ended();
    // The room that the message gave back may be what the next message waits for.
    for (const each of this.#order) each.roomChanged();
    // At once: workers that waited for each other's claims would all send, and all wait, at the same time.
    this.#handOut();
    if (this.#running === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
    this.turn();
  }

  /** A message that waits for a worker may expire before one is free. */
  #sweep(): void {
    const { policy, leases, time, clock } = this.#options;
    if (policy.size === 0) this.#sweptAt = clock.now();
    if (clock.now() - this.#sweptAt < SWEEP) return;
    this.#sweptAt = clock.now();
    const now = time.now();
    for (const claim of policy.drain()) {
      const delivery = leases.get(claim);
      if (now <= claim.message.request.deadline * 1000) policy.add(claim, delivery.labels);
      else {
        const consumer = this.#consumerOf(claim);
        consumer.series.depth(-1);
        consumer.settle(delivery, EXPIRED);
      }
    }
  }

  #plan(): void {
    const { random, policy, writer, batchCap, clock } = this.#options;
    const order = this.#order;
    for (const consumer of order) if (consumer.dueAt <= clock.now()) consumer.lookAgain();
    // Begins at a random queue, so that no queue is always the first to be asked.
    const first = order.length > 1 ? random.below(order.length) : 0;
    const queues = first === 0 ? order : [...order.slice(first), ...order.slice(0, first)];
    // What is ahead is claimed many at a time: half of it lasts longer than a claim takes.
    const ahead = this.#ahead;
    const freeWorkers = policy.size > 0 && 2 * policy.size >= ahead ? 0 : this.#free(ahead);
    const view = { queues, policy, batchCap, freeWorkers, writerFull: writer.full };
    for (const action of planClaims<QueueConsumer>(view)) void action.queue.act(action)?.then(() => this.turn());
  }

  /** The most messages that are claimed for workers that are about to end their message. */
  get #ahead(): number {
    return Math.floor(Math.min(this.settings.workers * AHEAD_SHARE, this.#pace.rate * AHEAD_MS));
  }

  /** Workers that no message is on its way to, including those that are about to end their message. */
  #free(ahead: number): number {
    let coming = 0;
    for (const consumer of this.#order) coming += consumer.expected;
    const { workers } = this.settings;
    return Math.max(0, workers + ahead - this.#running - coming);
  }

  /** The next turn takes place when a consumer or a sweep is due, unless an event causes one before. */
  #turnLater(): void {
    const { policy, clock } = this.#options;
    let at = policy.size > 0 ? this.#sweptAt + SWEEP : Number.POSITIVE_INFINITY;
    for (const consumer of this.#order) at = Math.min(at, consumer.dueAt);
    if (at >= this.#timerAt) return;
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = clock.after(
      at - clock.now(),
      () => {
        this.#timerAt = Number.POSITIVE_INFINITY;
        this.turn();
      },
      true,
    );
  }

  #consumerOf(claim: Claim): QueueConsumer {
    return this.#consumers.get(claim.queue.name)!;
  }
}
