import type { Redis } from "../../../base/redis/connection.ts";
import { AnswerLost } from "../../../base/redis/reply-error.ts";
import type { HeldMessages, QueueReleaser } from "../queue-client.ts";
import { claimsKey, deadKey, leasesKey } from "./keys.ts";
import { dispatchersIn } from "./presence.ts";
import { destination } from "./requeue.ts";
import { HELD, MOVE, RELEASE } from "./scripts.ts";
import { MOST_BYTES } from "./settle-batch.ts";

/** Messages per step: few enough not to hold up the server. */
const STEP = 250;

/** Hands back what dispatchers have of the queues of a server. */
export class SortedSetReleaser implements QueueReleaser {
  readonly #redis: Redis;
  readonly #database: number;
  readonly #retryQueueName: string;

  /** @param database number that the connection uses */
  constructor(redis: Redis, database: number, retryQueueName: string) {
    this.#redis = redis;
    this.#database = database;
    this.#retryQueueName = retryQueueName;
  }

  /** Undefined where the server forbids `CLIENT LIST`. */
  async dispatchers(queueName: string): Promise<number | undefined> {
    try {
      const list = await this.#redis.send(["CLIENT", "LIST", "TYPE", "normal"]);
      return dispatchersIn(String(list), this.#database, queueName);
    } catch (error) {
      if (error instanceof AnswerLost || !this.#redis.ready) throw error;
      return undefined;
    }
  }

  async held(queueName: string): Promise<HeldMessages> {
    const keys = [claimsKey(queueName), leasesKey(queueName)];
    const [now, claimed, last] = (await this.#redis.run(HELD, keys, [])) as [number, number, string];
    const lastLease = last === "" ? Number.NEGATIVE_INFINITY : Number(last);
    return { claimed, lastLease, leaseLeft: Math.max(0, lastLease - now) };
  }

  async release(queueName: string, all: boolean): Promise<number> {
    const keys = [queueName, claimsKey(queueName), leasesKey(queueName)];
    const args = [String(STEP), String(MOST_BYTES), all ? "all" : "run-out"];
    // A dispatcher that goes on claiming could keep this busy for ever.
    const { claimed } = await this.held(queueName);
    let released = 0;
    for (;;) {
      const [back, left] = (await this.#redis.run(RELEASE, keys, args)) as [number, number];
      released += back;
      if (left === 0 || released >= claimed) return released;
    }
  }

  async unpark(queueName: string): Promise<number> {
    // A key of another type would make dead letters of the retries.
    await this.#redis.send(["ZCARD", queueName]);
    let moved = 0;
    // Another mover may shift the entries: until a pass finds none.
    for (;;) {
      const found = await this.#unparkPass(queueName);
      moved += found;
      if (found === 0) return moved;
    }
  }

  /** Looks at every parked entry once, and leaves those of other queues where they are. */
  async #unparkPass(queueName: string): Promise<number> {
    const keys = [this.#retryQueueName, deadKey(this.#retryQueueName), queueName];
    let [moved, passed] = [0, 0];
    for (;;) {
      // As bytes: only its exact bytes move an entry.
      const range = ["ZRANGE", this.#retryQueueName, String(passed), String(passed + STEP - 1)];
      const entries = (await this.#redis.send(range, true)) as readonly Buffer[];
      const args: (string | Buffer)[] = [];
      for (const entry of entries) {
        const { queueName: origin, deadline } = destination(entry);
        if (origin === queueName) args.push(entry, "3", String(deadline), "");
        else passed++;
      }
      const [done] = args.length === 0 ? [0] : ((await this.#redis.run(MOVE, keys, args)) as [number, number]);
      moved += done;
      // None moved: another mover was faster, or the server takes nothing.
      if (entries.length < STEP || (args.length > 0 && done === 0)) return moved;
    }
  }
}
