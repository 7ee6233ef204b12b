import { createHash } from "node:crypto";
import { parseRedisUrl, type RedisConnection } from "../../../base/redis/address.ts";
import { connectRedis, type Redis, type RedisDeps } from "../../../base/redis/connection.ts";
import type { QueueBacklog } from "../broker.ts";
import {
  INBOX_BYTES,
  type Producer,
  type QueueClient,
  type QueueInspector,
  type QueueReleaser,
  type ResultInbox,
} from "../queue-client.ts";
import { readBacklog, redisQueueInspector } from "./inspector.ts";
import { ACTIVE_PREFIX } from "./keys.ts";
import { redisProducer } from "./producer.ts";
import { SortedSetReleaser } from "./releaser.ts";
import { READ_RESULTS, REMOVE_RESULTS } from "./scripts.ts";

const CONNECT_LIMIT = 5000;

/** @throws SluiceError REDIS_URL_INVALID, or BROKER_UNAVAILABLE when the server does not answer within 5 s */
export async function redisQueueClient(
  connection: RedisConnection,
  retryQueueName: string,
  deps: RedisDeps,
): Promise<QueueClient> {
  const redis = connectRedis(connection, deps);
  try {
    await redis.whenReady(CONNECT_LIMIT);
    const inspector = await redisQueueInspector(connection, deps);
    const { database } = parseRedisUrl(connection.url);
    const releaser = new SortedSetReleaser(redis, database, retryQueueName);
    return new SortedSetClient(redis, { inspector, releaser }, retryQueueName, deps);
  } catch (error) {
    redis.close();
    throw error;
  }
}

class SortedSetClient implements QueueClient {
  readonly place: string;
  readonly sharedRetries = true;
  readonly inspector: QueueInspector & { close(): void };
  readonly releaser: QueueReleaser;
  readonly #redis: Redis;
  readonly #retryQueueName: string;
  readonly #deps: RedisDeps;

  constructor(
    redis: Redis,
    {
      inspector,
      releaser,
    }: { readonly inspector: QueueInspector & { close(): void }; readonly releaser: QueueReleaser },
    retryQueueName: string,
    deps: RedisDeps,
  ) {
    this.place = `Redis at ${redis.server}`;
    this.inspector = inspector;
    this.releaser = releaser;
    this.#redis = redis;
    this.#retryQueueName = retryQueueName;
    this.#deps = deps;
  }

  producer(requestQueueName: string, resultQueueName: string): Promise<Producer> {
    return redisProducer({ client: this.#redis, requestQueueName, resultQueueName }, this.#deps);
  }

  inbox(resultQueueName: string): ResultInbox {
    return new ListInbox(this.#redis, resultQueueName);
  }

  async outstanding(ids: readonly string[]): Promise<readonly boolean[]> {
    if (ids.length === 0) return [];
    const tokens = await this.#redis.send(["MGET", ...ids.map((id) => ACTIVE_PREFIX + id)]);
    return (tokens as readonly (string | null)[]).map((token) => token !== null);
  }

  backlog(queueName: string): Promise<QueueBacklog> {
    return readBacklog(this.#redis, queueName, this.#retryQueueName);
  }

  async resultDepth(resultQueueName: string): Promise<number> {
    return (await this.#redis.send(["LLEN", resultQueueName])) as number;
  }

  async names(): Promise<undefined> {
    return undefined;
  }

  close(): void {
    this.inspector.close();
    this.#redis.close();
  }
}

/** A list of results with one consumer: new results come in at the left, so the right end belongs to this consumer alone. */
export class ListInbox implements ResultInbox {
  readonly #redis: Redis;
  readonly #key: string;
  #last: readonly string[] = [];

  constructor(redis: Redis, key: string) {
    this.#redis = redis;
    this.#key = key;
  }

  async read(count: number): Promise<readonly string[]> {
    const found = await this.#redis.run(READ_RESULTS, [this.#key], [String(count), String(INBOX_BYTES)]);
    this.#last = found as readonly string[];
    return this.#last;
  }

  async remove(): Promise<void> {
    if (this.#last.length === 0) return;
    const sums = this.#last.map((text) => createHash("sha1").update(text).digest("hex"));
    await this.#redis.run(REMOVE_RESULTS, [this.#key], sums);
    this.#last = [];
  }
}
