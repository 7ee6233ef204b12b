import { SluiceError } from "../../../base/inference/errors.ts";
import type { RedisConnection } from "../../../base/redis/address.ts";
import { connectRedis, type Redis, type RedisDeps } from "../../../base/redis/connection.ts";
import { RedisReplyError } from "../../../base/redis/reply-error.ts";
import type { QueueBacklog } from "../broker.ts";
import { revived } from "../intake.ts";
import type { DeadLetter, QueueEntry, QueueInspector } from "../queue-client.ts";
import type { RedisSortedSetSettings } from "../settings.ts";
import { claimsKey, deadKey, leasesKey, ownersKey } from "./keys.ts";
import { BACKLOG, PEEK, REVIVE } from "./scripts.ts";

/** Dead letters per step. */
const STEP = 100;
const CONNECT_LIMIT = 5000;

/**
 * Reads the queues of a server; end it with `close`.
 * @throws SluiceError REDIS_URL_INVALID, or BROKER_UNAVAILABLE when there is no answer within 5 s
 */
export async function redisQueueInspector(
  connection: RedisConnection,
  deps: RedisDeps,
): Promise<QueueInspector & { close(): void }> {
  const redis = connectRedis(connection, deps);
  try {
    await redis.whenReady(CONNECT_LIMIT);
  } catch (error) {
    redis.close();
    throw error;
  }
  return new SortedSetInspector(redis);
}

class SortedSetInspector implements QueueInspector {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  async peek(queueName: string, count: number): Promise<readonly QueueEntry[]> {
    const found = (await this.#redis.run(PEEK, [queueName], [String(count)])) as readonly string[];
    const entries: QueueEntry[] = [];
    for (let i = 0; i < found.length; i += 2) entries.push({ entry: found[i]!, score: Number(found[i + 1]) });
    return entries;
  }

  async dead(queueName: string, count: number): Promise<readonly DeadLetter[]> {
    return (await this.#letters(queueName, count)).map(readLetter);
  }

  async requeueDead(queueName: string, count: number): Promise<number> {
    let moved = 0;
    while (moved < count) {
      const letters = await this.#letters(queueName, Math.min(STEP, count - moved));
      if (letters.length === 0) break;
      const args = letters.flatMap((letter) => {
        const { text, score } = revived(readLetter(letter).entry);
        return [letter, text, String(score)];
      });
      const done = (await this.#redis.run(REVIVE, [deadKey(queueName), queueName], args)) as number;
      if (done === 0) break;
      moved += done;
    }
    return moved;
  }

  close(): void {
    this.#redis.close();
  }

  /** The oldest first: new letters are pushed to the left. */
  async #letters(queueName: string, count: number): Promise<readonly string[]> {
    const found = await this.#redis.send(["LRANGE", deadKey(queueName), String(-count), "-1"]);
    return (found as readonly string[]).toReversed();
  }
}

/** A letter that Sluice did not write counts as an entry without a reason. */
function readLetter(letter: string): DeadLetter {
  try {
    const { entry, reason, at } = JSON.parse(letter) as Partial<DeadLetter>;
    if (typeof entry === "string") return { entry, reason: String(reason ?? ""), at: Number(at ?? 0) };
  } catch {
    // No JSON.
  }
  return { entry: letter, reason: "", at: 0 };
}

/**
 * The contents of a queue in numbers; retries are those of all queues that share their set.
 * @throws SluiceError of the connection
 */
export async function readBacklog(redis: Redis, queueName: string, retryQueueName: string): Promise<QueueBacklog> {
  const keys = [queueName, claimsKey(queueName), retryQueueName, deadKey(queueName)];
  const answer = (await redis.run(BACKLOG, keys, [])) as readonly (number | string | null)[];
  const [waiting, claimed, retries, dead, nextDeadline, nextCreated] = answer.map((each) =>
    each === null ? Number.NaN : Number(each),
  );
  return {
    waiting: waiting!,
    claimed: claimed!,
    retries: retries!,
    dead: dead!,
    nextDeadline: nextDeadline!,
    ...(Number.isNaN(nextCreated!) ? {} : { nextCreated: nextCreated! }),
  };
}

/**
 * Asks the server in one round trip whether requests can be claimed and results can be written. A `ZADD` with `XX` changes
 * nothing. A server without memory, without a disk, or that is a replica refuses it like every other write. The other commands
 * only read the type of a key.
 * @throws SluiceError BROKER_UNAVAILABLE with the reason
 */
export async function checkKeys(redis: Redis, settings: RedisSortedSetSettings): Promise<void> {
  const { queues, resultQueueName, retryQueueName } = settings;
  const results = new Set([resultQueueName, ...queues.flatMap((queue) => queue.resultQueueName ?? [])]);
  const commands = [
    ...queues.flatMap(({ name }) => [
      ["ZADD", name, "XX", "0", ""],
      ["HLEN", claimsKey(name)],
      ["ZCARD", leasesKey(name)],
      ["HLEN", ownersKey(name)],
    ]),
    ["ZADD", retryQueueName, "XX", "0", ""],
    ...[...results].map((name) => ["LLEN", name]),
  ];
  const answers = await Promise.allSettled(commands.map((command) => redis.send(command)));
  for (const [i, answer] of answers.entries()) {
    if (answer.status === "fulfilled") continue;
    const error = answer.reason as Error;
    // The name of the key helps only where the key is the problem.
    const key = error instanceof RedisReplyError ? `key ${commands[i]![1]}: ` : "";
    throw new SluiceError("BROKER_UNAVAILABLE", key + error.message, { cause: error });
  }
}
