import type { Clock } from "../../../base/clock/clock.ts";
import type { Random } from "../../../base/clock/random.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import type { RedisConnection } from "../../../base/redis/address.ts";
import { connectRedis, type Redis, type RedisReply } from "../../../base/redis/connection.ts";
import { RedisReplyError } from "../../../base/redis/reply-error.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import type { ResultMessage } from "../messages/message.ts";
import { parseResult } from "../messages/result.ts";
import { type Submission, submission } from "../messages/submission.ts";
import type { Producer, SubmitRequest } from "../queue-client.ts";
import { orderedToken } from "../request-token.ts";
import { ACTIVE_PREFIX, CANCEL_PREFIX } from "./keys.ts";
import { ListResultReader } from "./result-reader.ts";
import { CANCEL } from "./scripts.ts";

export interface RedisProducerOptions {
  /** The connection settings; not needed with `client`. */
  readonly connection?: RedisConnection;
  /** A connection that the caller ends. */
  readonly client?: Redis;
  /** Default `request-sortedset`. */
  readonly requestQueueName?: string;
  readonly resultQueueName: string;
}

export interface RedisProducerDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
}

const DEFAULT_REQUEST_QUEUE = "request-sortedset";
const CONNECT_LIMIT = 5000;
/** Requests per transaction. */
const STEP = 100;
/** Seconds that a cancel mark is kept: 7 days. */
const MARK_KEPT = 604_800;

/**
 * A producer for the redis-sortedset transport (async-processor 4.6).
 * @throws SluiceError PRODUCER_INVALID, REDIS_URL_INVALID, or BROKER_UNAVAILABLE when the server does not answer within 5 s
 */
export async function redisProducer(
  { connection, client, requestQueueName, resultQueueName }: RedisProducerOptions,
  deps: RedisProducerDeps,
): Promise<Producer> {
  if (!resultQueueName) throw new SluiceError("PRODUCER_INVALID", "ResultQueueName is required");
  if (client === undefined && connection === undefined)
    throw new SluiceError("PRODUCER_INVALID", "a Redis URL is required");
  const redis = client ?? connectRedis(connection!, deps);
  try {
    await redis.whenReady(CONNECT_LIMIT);
    await redis.send(["PING"]);
  } catch (error) {
    if (redis !== client) redis.close();
    throw error;
  }
  const names = { requestQueueName: requestQueueName || DEFAULT_REQUEST_QUEUE, resultQueueName };
  return new SortedSetProducer(redis, names, deps, redis !== client);
}

class SortedSetProducer implements Producer {
  readonly #redis: Redis;
  readonly #names: { readonly requestQueueName: string; readonly resultQueueName: string };
  readonly #deps: RedisProducerDeps;
  readonly #owned: boolean;
  #reader: ListResultReader | undefined;
  #submitted = 0;

  constructor(
    redis: Redis,
    names: { readonly requestQueueName: string; readonly resultQueueName: string },
    deps: RedisProducerDeps,
    owned: boolean,
  ) {
    this.#redis = redis;
    this.#names = names;
    this.#deps = deps;
    this.#owned = owned;
  }

  submitRequest(request: SubmitRequest): Promise<void> {
    return this.submitRequests([request]);
  }

  async submitRequests(requests: readonly SubmitRequest[]): Promise<void> {
    const now = this.#deps.clock.wall() / 1000;
    const all = requests.map((request) => {
      const token = orderedToken(now * 1000, this.#submitted++, this.#deps.random);
      return submission(request, { ...this.#names, now, token });
    });
    for (let at = 0; at < all.length; at += STEP) await this.#transact(all.slice(at, at + STEP), now);
  }

  async cancelRequests(ids: readonly string[]): Promise<void> {
    const known = ids.filter((id) => id !== "");
    if (known.length > 0)
      await this.#redis.run(CANCEL, [], [ACTIVE_PREFIX, CANCEL_PREFIX, String(MARK_KEPT), ...known]);
  }

  async getResult(signal?: AbortSignal): Promise<ResultMessage> {
    this.#reader ??= new ListResultReader(this.#redis, this.#deps.clock, this.#names.resultQueueName);
    return parseResult(await this.#reader.next(signal));
  }

  async requestQueueDepth(): Promise<number> {
    return (await this.#redis.send(["ZCARD", this.#names.requestQueueName])) as number;
  }

  async resultQueueDepth(): Promise<number> {
    return (await this.#redis.send(["LLEN", this.#names.resultQueueName])) as number;
  }

  async clearRequestQueue(): Promise<void> {
    await this.#redis.send(["DEL", this.#names.requestQueueName]);
  }

  async clearResultQueue(): Promise<void> {
    await this.#redis.send(["DEL", this.#names.resultQueueName]);
  }

  async close(): Promise<void> {
    await this.#reader?.close();
    if (this.#owned) this.#redis.close();
  }

  /** All or none of the submissions: commands of one turn of the event loop go out in order, with nothing in between. */
  async #transact(submissions: readonly Submission[], now: number): Promise<void> {
    const commands: string[][] = [["MULTI"]];
    for (const { id, token, deadline, requestQueueName, envelope } of submissions)
      commands.push(
        ["DEL", CANCEL_PREFIX + id],
        ["SET", ACTIVE_PREFIX + id, token, "EX", String(Math.ceil(deadline - now))],
        ["ZADD", requestQueueName, String(deadline), envelope],
      );
    commands.push(["EXEC"]);
    const answers = await Promise.all(commands.map((command) => this.#redis.send(command)));
    const refused = (answers.at(-1) as readonly (RedisReply | Error)[]).find((reply) => reply instanceof Error);
    if (refused !== undefined) throw new RedisReplyError(this.#redis.server, "ZADD", refused.message);
  }
}
