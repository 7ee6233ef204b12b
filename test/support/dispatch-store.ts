import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Producer, SubmitRequest } from "../../src/async/brokers/queue-client.ts";
import { redisProducer } from "../../src/async/brokers/redis-sortedset/producer.ts";
import { sqliteProducer } from "../../src/async/brokers/sqlite/producer.ts";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import { connectRedis, type Redis } from "../../src/base/redis/connection.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import type { DispatchTransport } from "./dispatch-process.ts";
import { poll } from "./poll.ts";
import { type RunningRedis, startRedis } from "./redis.ts";
import { fixedLimit } from "./slowness.ts";

/** What is left of requests in a store. */
export interface Leftovers {
  readonly waiting: number;
  readonly claimed: number;
  readonly retries: number;
  readonly dead: number;
}

export const NOTHING_LEFT: Leftovers = { waiting: 0, claimed: 0, retries: 0, dead: 0 };

/** A store of a test's own: queue `q`, results `results`. Results are read where they stand, past all code of ours. */
export interface DispatchStore {
  readonly transport: DispatchTransport;
  submit(requests: readonly SubmitRequest[]): Promise<void>;
  /** Texts of the results, oldest first. */
  results(): Promise<readonly string[]>;
  countResults(): Promise<number>;
  leftovers(): Promise<Leftovers>;
  close(): Promise<void>;
}

/** Requests that a SQLite producer writes in one transaction. */
const STEP = 200;

export type StoreKind = "Redis" | "SQLite";

export function openStore(kind: StoreKind): Promise<DispatchStore> {
  return kind === "Redis" ? RedisStore.start() : SqliteStore.start();
}

const deps = { clock: realClock, random: new SeededRandom(3), log: silentLogger };

/** A Redis server whose every write is on disk before its answer. */
export class RedisStore implements DispatchStore {
  readonly server: RunningRedis;
  readonly redis: Redis;
  readonly #producer: Producer;

  private constructor(server: RunningRedis, redis: Redis, producer: Producer) {
    this.server = server;
    this.redis = redis;
    this.#producer = producer;
  }

  static async start(appendOnly = true): Promise<RedisStore> {
    const server = await startRedis({ appendOnly });
    const redis = connectRedis({ url: server.url, tls: {}, enableTracing: false }, deps);
    // A producer itself waits for five seconds.
    await redis.whenReady(fixedLimit(10_000));
    const names = { requestQueueName: "q", resultQueueName: "results" };
    return new RedisStore(server, redis, await redisProducer({ client: redis, ...names }, deps));
  }

  get transport(): DispatchTransport {
    const config = { url: this.server.url, result_queue_name: "results", retry_queue_name: "retries" };
    return { name: "redis-sortedset", config };
  }

  submit(requests: readonly SubmitRequest[]): Promise<void> {
    return this.#producer.submitRequests(requests);
  }

  async results(): Promise<readonly string[]> {
    return ((await this.redis.send(["LRANGE", "results", "0", "-1"])) as string[]).toReversed();
  }

  async countResults(): Promise<number> {
    return (await this.redis.send(["LLEN", "results"])) as number;
  }

  async leftovers(): Promise<Leftovers> {
    const asked = [
      ["ZCARD", "q"],
      ["HLEN", "{q}:claims"],
      ["ZCARD", "retries"],
      ["LLEN", "q:dead"],
    ].map((command) => this.redis.send(command));
    const [waiting, claimed, retries, dead] = (await Promise.all(asked)) as [number, number, number, number];
    return { waiting, claimed, retries, dead };
  }

  async close(): Promise<void> {
    this.redis.close();
    await this.server.stop();
  }
}

export class SqliteStore implements DispatchStore {
  readonly #folder: string;
  readonly #producer: Producer;
  readonly #file: DatabaseSync;

  private constructor(folder: string) {
    this.#folder = folder;
    const names = { requestQueueName: "q", resultQueueName: "results" };
    this.#producer = sqliteProducer({ path: this.path, ...names }, deps);
    this.#file = new DatabaseSync(this.path, { timeout: 5000, readOnly: true });
  }

  static async start(): Promise<SqliteStore> {
    return new SqliteStore(mkdtempSync(join(tmpdir(), "sluice-queue-")));
  }

  get path(): string {
    return join(this.#folder, "queue.db");
  }

  get transport(): DispatchTransport {
    return { name: "sqlite", config: { path: this.path, result_queue_name: "results" } };
  }

  async submit(requests: readonly SubmitRequest[]): Promise<void> {
    // All of a step are written, or none, when a dispatcher stands still in the middle of a write for longer than a producer waits.
    for (let at = 0; at < requests.length; at += STEP)
      await poll("the queue file to be written", () =>
        this.#producer.submitRequests(requests.slice(at, at + STEP)).then(() => true),
      );
  }

  async results(): Promise<readonly string[]> {
    const rows = this.#file.prepare("SELECT body FROM results WHERE queue = 'results' ORDER BY seq").all();
    return rows.map((row) => String(row["body"]));
  }

  async countResults(): Promise<number> {
    return Number(this.#file.prepare("SELECT count(*) AS n FROM results WHERE queue = 'results'").get()!["n"]);
  }

  async leftovers(): Promise<Leftovers> {
    const count = (table: string, where: string): number =>
      Number(this.#file.prepare(`SELECT count(*) AS n FROM ${table} WHERE ${where}`).get()!["n"]);
    return {
      waiting: count("messages", "state = 0"),
      claimed: count("messages", "state = 1"),
      retries: count("messages", "state = 2"),
      dead: count("dead", "true"),
    };
  }

  async close(): Promise<void> {
    await this.#producer.close();
    this.#file.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
