import type { Clock } from "../../../base/clock/clock.ts";
import type { Redis } from "../../../base/redis/connection.ts";
import { readScript } from "../../../base/redis/script.ts";

/** Most entries that one call takes, and most that it reads: this bounds the time in which the server does nothing else. */
const TAKEN = 100;
const LOOKED_AT = 1000;

/** Pauses between polls while there is no work, milliseconds: doubling from the first to the longest. */
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30_000;

export const TAKE_DUE = readScript(import.meta.dirname, "take-due.lua");

/** An entry taken out of the set. */
export interface DueRetry {
  readonly queueName: string;
  /** Its envelope. */
  readonly text: string;
}

/** The set in Redis where retries wait until they are due; several deployments may share it. */
export class RetrySet {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #queueNames: readonly string[];
  readonly #clock: Clock;
  #skip = 0;
  #pause = FIRST_PAUSE;
  #lookAt: number;
  #offset = 0;

  constructor(redis: Redis, key: string, queueNames: readonly string[], clock: Clock) {
    this.#redis = redis;
    this.#key = key;
    this.#queueNames = queueNames;
    this.#clock = clock;
    this.#lookAt = clock.now() + FIRST_PAUSE;
  }

  /** Milliseconds until the next poll is due, >= 0. */
  get wait(): number {
    return Math.max(0, this.#lookAt - this.#clock.now());
  }

  /** The server's clock at its last answer, Unix milliseconds. */
  get time(): number {
    return this.#clock.wall() + this.#offset;
  }

  /** @param entries envelopes @param due Unix seconds @throws SluiceError of the connection */
  async park(entries: readonly string[], due: number): Promise<void> {
    await this.#redis.send(["ZADD", this.#key, ...entries.flatMap((entry) => [String(due), entry])]);
    this.#pause = FIRST_PAUSE;
    this.#lookAt = Math.min(this.#lookAt, this.#clock.now() + Math.max(0, due * 1000 - this.time));
  }

  /**
   * Takes entries that are due. Source of the pauses that follow: async-processor 5.3.
   * @param limit most entries that there is room for, > 0
   * @throws SluiceError of the connection
   */
  async take(limit: number): Promise<readonly DueRetry[]> {
    const args = [Math.min(limit, TAKEN), LOOKED_AT, this.#skip].map(String);
    const answer = (await this.#redis.run(TAKE_DUE, [this.#key], [...args, ...this.#queueNames])) as [
      string,
      number,
      ...string[],
    ];
    const [time, skip, ...pairs] = answer;
    const entries: DueRetry[] = [];
    for (let at = 0; at < pairs.length; at += 2) entries.push({ queueName: pairs[at]!, text: pairs[at + 1]! });
    this.#offset = Number(time) * 1000 - this.#clock.wall();
    this.#skip = Math.max(0, skip);
    this.#pause = entries.length > 0 ? FIRST_PAUSE : this.#pause;
    this.#lookAt = this.#clock.now() + (skip < 0 ? this.#pause : 0);
    if (entries.length === 0 && skip < 0) this.#pause = Math.min(LONGEST_PAUSE, this.#pause * 2);
    return entries;
  }
}
