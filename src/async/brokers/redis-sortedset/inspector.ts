import { revived } from "../intake.ts";
import type { DeadLetter, QueueEntry, QueueInspector } from "../producer.ts";
import { connectRedis, type Redis, type RedisDeps } from "../redis/connection.ts";
import type { RedisConnection } from "../settings.ts";
import { PEEK, REVIVE } from "./inspect-scripts.ts";
import { deadKey } from "./keys.ts";

/** Letters per step. */
const STEP = 100;
const CONNECT_LIMIT = 5000;

/**
 * Looks into the queues of a server; end it with `close`.
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

  /** The oldest first: new ones are pushed to the left. */
  async #letters(queueName: string, count: number): Promise<readonly string[]> {
    const found = await this.#redis.send(["LRANGE", deadKey(queueName), String(-count), "-1"]);
    return (found as readonly string[]).toReversed();
  }
}

/** A letter that is none of ours counts as an entry without a reason. */
function readLetter(letter: string): DeadLetter {
  try {
    const { entry, reason, at } = JSON.parse(letter) as Partial<DeadLetter>;
    if (typeof entry === "string") return { entry, reason: String(reason ?? ""), at: Number(at ?? 0) };
  } catch {
    // No JSON.
  }
  return { entry: letter, reason: "", at: 0 };
}
