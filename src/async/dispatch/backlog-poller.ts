import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { DispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import type { Broker, QueueBacklog } from "../brokers/broker.ts";
import type { QueueConsumer } from "./queue-consumer.ts";

/** Weight of the newest interval in the rate behind the ETA. */
const NEWEST = 0.3;

/** Longest pause between polls until one succeeds, milliseconds. */
const SOON = 1000;

export interface BacklogPollerOptions {
  readonly broker: Pick<Broker, "backlog">;
  readonly consumers: readonly QueueConsumer[];
  readonly metrics: DispatchMetrics;
  readonly clock: Clock;
  /** Milliseconds; 0 = never. */
  readonly interval: number;
}

/** The backlog of one queue at the last poll that succeeded. */
export interface BacklogView extends QueueBacklog {
  /** Messages of the queue that end in this process per second, averaged. */
  readonly rate: number;
  /** Seconds until the queue is empty at that rate; Infinity at a standstill, 0 when it is empty. */
  readonly eta: number;
  /** Seconds since the first entry was created; NaN when it is not known. */
  readonly age: number;
}

/** Polls the backlogs and keeps the last answers: a failed poll must not read as an empty queue. */
export class BacklogPoller {
  readonly views = new Map<string, BacklogView>();
  readonly #options: BacklogPollerOptions;
  readonly #ended = new Map<string, number>();
  #last: number;
  #timer: Timer | undefined;
  #first = true;
  #stopped = false;

  constructor(options: BacklogPollerOptions) {
    this.#options = options;
    this.#last = options.clock.now();
  }

  start(): void {
    if (this.#options.interval > 0) void this.#look();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  async #look(): Promise<void> {
    const { clock, consumers, interval } = this.#options;
    const seconds = (clock.now() - this.#last) / 1000;
    this.#last = clock.now();
    await Promise.all(consumers.map((consumer) => this.#lookAt(consumer, seconds)));
    this.#first = false;
    // Brokers connect in the background, and the first figure must not take a whole interval.
    const pause = this.views.size === 0 ? Math.min(SOON, interval) : interval;
    if (!this.#stopped) this.#timer = clock.after(pause, () => void this.#look(), true);
  }

  async #lookAt(consumer: QueueConsumer, seconds: number): Promise<void> {
    const { broker, metrics, clock } = this.#options;
    const { name } = consumer.queue;
    const { ended } = consumer.outcomes;
    const before = this.views.get(name);
    const latest = seconds > 0 ? (ended - (this.#ended.get(name) ?? 0)) / seconds : 0;
    const rate = before === undefined ? latest : before.rate * (1 - NEWEST) + latest * NEWEST;
    this.#ended.set(name, ended);
    let backlog: QueueBacklog;
    try {
      backlog = await broker.backlog(consumer.queue);
    } catch {
      // A broker that is not connected yet is no failure.
      if (!this.#first) consumer.series.backlogPollFailed();
      return;
    }
    const { waiting, retries, nextCreated } = backlog;
    const eta = waiting === 0 ? 0 : waiting / rate;
    // Go's producers write 0 when the field is not set.
    const age =
      nextCreated === undefined || nextCreated <= 0 ? Number.NaN : Math.max(0, clock.wall() / 1000 - nextCreated);
    this.views.set(name, { ...backlog, rate, eta, age });
    consumer.series.backlog(waiting);
    if (!Number.isNaN(retries)) metrics.retryBacklog.with().set(retries);
    if (!Number.isNaN(eta)) consumer.series.eta(eta);
    if (waiting === 0) consumer.series.oldestAge(0);
    else if (!Number.isNaN(age)) consumer.series.oldestAge(age);
  }
}
