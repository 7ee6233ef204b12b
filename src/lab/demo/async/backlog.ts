import type { Producer } from "../../../async/brokers/queue-client.ts";
import { sqliteProducer } from "../../../async/brokers/sqlite/producer.ts";
import type { Clock } from "../../../base/clock/clock.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import { silentLogger } from "../../../base/telemetry/logger.ts";
import { words } from "../workload.ts";

/** Seconds until a request of the backlog is no longer wanted: none of them gets there. */
const PATIENCE = 900;

export interface BacklogOptions {
  /** Of the queue file. */
  readonly path: string;
  readonly queueName: string;
  /** How many requests it is made of. */
  readonly count: number;
  readonly seed: number;
  readonly clock: Clock;
}

/** What became of a backlog. */
export interface BacklogTally {
  readonly queued: number;
  readonly results: number;
  /** Requests without a result, with more than one, and with one that is no answer of a model server. */
  readonly lost: number;
  readonly twice: number;
  readonly failed: number;
}

/**
 * Requests that can wait, on an embedded queue. Nothing is written while realtime traffic runs in this process, since SQLite
 * waits for the disk: all are queued at once, and results are taken when they all are there.
 */
export class Backlog {
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

  /** Queues all of it: answers of 60 to 100 tokens, about two seconds each. */
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

  /** Requests that nobody has claimed, and results that are there. */
  async depths(): Promise<{ readonly waiting: number; readonly done: number }> {
    const [waiting, done] = [await this.#producer.requestQueueDepth(), await this.#producer.resultQueueDepth()];
    return { waiting, done };
  }

  /** Takes the results that are there and counts them against what was queued. Closes the queue. */
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
