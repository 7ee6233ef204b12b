import type { Producer } from "../../../async/brokers/queue-client.ts";
import { sqliteProducer } from "../../../async/brokers/sqlite/producer.ts";
import type { Clock } from "../../../base/clock/clock.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { silentLogger } from "../../../base/telemetry/logger.ts";
import { words } from "../traffic.ts";
import type { DemoDispatcher, DispatcherView } from "./dispatcher.ts";
import { WAVE } from "./realtime.ts";

/** Seconds until the deadline of a backlog request. No request of the demo reaches it. */
const PATIENCE = 900;

interface BacklogOptions {
  /** Path of the queue file. */
  readonly path: string;
  readonly queueName: string;
  /** Number of requests. */
  readonly count: number;
  readonly seed: number;
  readonly clock: Clock;
}

/** The results of a backlog. */
interface BacklogTally {
  readonly queued: number;
  readonly results: number;
  /** Requests without a result, with more than one, and with a result that is not an answer of a model server. */
  readonly lost: number;
  readonly twice: number;
  readonly failed: number;
}

/**
 * Requests that can wait, on an embedded queue. SQLite waits for the disk, so nothing is written while realtime traffic runs in
 * this process. All requests are queued at once, and the results are taken after the last one is written.
 */
export class DemoBacklog {
  readonly #options: BacklogOptions;
  readonly #producer: Producer;
  readonly #ids: readonly string[];

  constructor(options: BacklogOptions) {
    const { path, queueName, count, seed, clock } = options;
    this.#options = options;
    this.#producer = sqliteProducer(
      { path, requestQueueName: queueName, resultQueueName: `${queueName}-results` },
      { clock, random: new SeededRandom(seed), log: silentLogger },
    );
    this.#ids = Array.from({ length: count }, (_, i) => `${queueName}-${seed}-${i}`);
  }

  get size(): number {
    return this.#options.count;
  }

  /** Queues all requests: answers of 60 to 100 tokens, about two seconds each. */
  async enqueue(): Promise<void> {
    const { seed, clock } = this.#options;
    const random = new SeededRandom(seed);
    const deadline = Math.floor(clock.wall() / 1000) + PATIENCE;
    await this.#producer.submitRequests(
      this.#ids.map((id) => ({
        id,
        deadline,
        payload: { model: "sim", prompt: words(random, 60), max_tokens: 60 + random.below(41), ignore_eos: true },
      })),
    );
  }

  /** Number of unclaimed requests, and of written results. */
  async depths(): Promise<{ readonly waiting: number; readonly done: number }> {
    const [waiting, done] = [await this.#producer.requestQueueDepth(), await this.#producer.resultQueueDepth()];
    return { waiting, done };
  }

  /** Takes the results and compares them with the queued requests. Closes the queue. */
  async collect(): Promise<BacklogTally> {
    const seen = new Map<string, number>(this.#ids.map((id) => [id, 0]));
    let results = 0;
    let failed = 0;
    for (;;) {
      const depth = await this.#producer.resultQueueDepth();
      if (depth === 0) break;
      for (const result of await Promise.all(Array.from({ length: depth }, () => this.#producer.getResult()))) {
        results++;
        seen.set(result.id, (seen.get(result.id) ?? 0) + 1);
        if (result.statusCode !== 200) failed++;
      }
    }
    await this.#producer.close();
    const counts = [...seen.values()];
    return {
      queued: this.size,
      results,
      lost: counts.filter((count) => count === 0).length,
      twice: counts.filter((count) => count > 1).length,
      failed,
    };
  }
}

/**
 * Shares of an act at which the backlog arrives and at which the dispatcher is killed. The kill comes after the backlog has
 * recovered from the wave. It also comes late, so that the restart on a small machine slows down no realtime request.
 */
const ARRIVAL = 0.05;
const KILL = 0.92;

export interface BacklogRunOptions {
  readonly work: DemoBacklog;
  readonly dispatcher: DemoDispatcher;
  /** Whether the demo kills the dispatcher during the act. */
  readonly kill: boolean;
}

/** The results of a backlog, in the shape of `--json`. */
export interface BacklogSummary extends BacklogTally {
  /** From the first request queued to the last result. */
  readonly seconds: number;
  readonly kills: number;
  readonly inFlight: InFlightSummary;
}

/** The state of a backlog at one moment. */
export interface BacklogStatus {
  readonly waiting: number;
  readonly done: number;
  /** Undefined while the dispatcher does not run. */
  readonly view: DispatcherView | undefined;
}

/** A backlog during an act: its arrival, its progress and its results. */
export class BacklogRun {
  readonly #options: BacklogRunOptions;
  readonly #clock: Clock;
  readonly #course = new InFlightCourse();
  #queuedAt: number | undefined;
  #doneAt: number | undefined;
  #killed = false;

  constructor(options: BacklogRunOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /** Every request has a result. */
  get done(): boolean {
    return this.#doneAt !== undefined;
  }

  /** Does the work that is due and reads the state. @param share elapsed share of the act, above 1 after its end */
  async step(share: number): Promise<BacklogStatus> {
    const { work, dispatcher, kill } = this.#options;
    if (this.#queuedAt === undefined && share >= ARRIVAL) {
      this.#queuedAt = this.#clock.now();
      await work.enqueue();
    }
    if (kill && !this.#killed && share >= KILL) {
      this.#killed = true;
      dispatcher.kill();
    }
    const view = await dispatcher.look();
    const depths = await work.depths();
    if (view !== undefined) this.#course.add(share, view.running);
    if (depths.done >= work.size) this.#doneAt ??= this.#clock.now();
    return { ...depths, view };
  }

  /** Ends the dispatcher, so no further result can follow, and counts the results. */
  async finish(): Promise<BacklogSummary> {
    const { work, dispatcher } = this.#options;
    await dispatcher.stop();
    const ms = (this.#doneAt ?? this.#clock.now()) - (this.#queuedAt ?? this.#clock.now());
    const seconds = Math.round(ms / 100) / 10;
    return { ...(await work.collect()), seconds, kills: dispatcher.kills, inFlight: this.#course.summary() };
  }
}

/**
 * Shares of an act over which the mean is taken. They begin long enough after each change that requests from before it have
 * ended.
 */
const BEFORE = [WAVE.from - 0.1, WAVE.from] as const;
const DURING = [WAVE.to - 0.1, WAVE.to] as const;
const AFTER = [WAVE.to + 0.25, WAVE.to + 0.35] as const;
/** The share in which the backlog yields. The margin covers late metrics on a busy machine. */
const YIELDING = [WAVE.from, WAVE.to + 0.25] as const;

/** Mean number of backlog requests in flight before, in and after the wave of realtime traffic. */
interface InFlightSummary {
  readonly before: number;
  readonly during: number;
  readonly after: number;
  /** The least number from the beginning of the wave until some time after it. */
  readonly least: number;
}

/** The number of backlog requests in flight during an act. */
export class InFlightCourse {
  readonly #samples: { readonly share: number; readonly inFlight: number }[] = [];

  /** @param share elapsed share of the act, 0..1 */
  add(share: number, inFlight: number): void {
    this.#samples.push({ share, inFlight });
  }

  summary(): InFlightSummary {
    const least = Math.min(...this.#within(YIELDING));
    return {
      before: this.#mean(BEFORE),
      during: this.#mean(DURING),
      after: this.#mean(AFTER),
      least: Number.isFinite(least) ? least : 0,
    };
  }

  #mean(part: readonly [number, number]): number {
    const within = this.#within(part);
    const sum = within.reduce((total, inFlight) => total + inFlight, 0);
    return within.length === 0 ? 0 : Math.round((sum / within.length) * 10) / 10;
  }

  #within([from, to]: readonly [number, number]): number[] {
    return this.#samples.filter(({ share }) => share >= from && share < to).map(({ inFlight }) => inFlight);
  }
}
