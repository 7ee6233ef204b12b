import { SluiceError } from "../../../base/inference/errors.ts";
import type { Redis } from "../redis/connection.ts";
import { RedisReplyError } from "../redis/reply-error.ts";
import type { RedisSortedSetSettings } from "../settings.ts";
import { claimsKey, leasesKey, ownersKey } from "./keys.ts";

/**
 * Asks the server in one round trip whether requests can be claimed and results can be written. A `ZADD` with `XX` changes
 * nothing, and a server without memory, without a disk, or that is a replica refuses it like every other write. The other
 * commands only look at the type of a key.
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
    // Which key it is helps only where the key is the problem.
    const key = error instanceof RedisReplyError ? `key ${commands[i]![1]}: ` : "";
    throw new SluiceError("BROKER_UNAVAILABLE", key + error.message, { cause: error });
  }
}
