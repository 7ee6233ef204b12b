import { type Clock, delay } from "../../../base/clock/clock.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import type { Redis } from "../../../base/redis/connection.ts";
import { ResultWaiters } from "../result-waiters.ts";

/** Seconds of one blocking command; a server that is silent for longer than SILENCE ms is given up. */
const BLOCK = 5;
const SILENCE = 10_000;
/** Milliseconds between attempts at a server that is away, and between attempts at one that takes nothing. */
const AWAY = 1000;
const PAUSE = 250;

/**
 * Takes entries from the right end of a list, for all waiting callers: one blocking command at a time, on its own connection.
 * An entry that no caller waits for any more goes back to its place.
 */
export class ListResultReader {
  readonly #redis: Redis;
  readonly #blocking: Redis;
  readonly #clock: Clock;
  readonly #key: string;
  readonly #waiters = new ResultWaiters(() => void this.#unblock());
  /** Entries whose caller left while the server could not take them back. */
  readonly #spare: string[] = [];
  #connectionId: Promise<unknown> = Promise.resolve(undefined);
  #serving = false;
  #loop: Promise<void> | undefined;
  #closed = false;

  /** @param redis for all commands that do not block */
  constructor(redis: Redis, clock: Clock, key: string) {
    this.#redis = redis;
    this.#clock = clock;
    this.#key = key;
    this.#blocking = redis.another({
      commandTimeout: SILENCE,
      onReady: () => {
        this.#connectionId = this.#blocking.send(["CLIENT", "ID"]).catch(() => undefined);
      },
    });
  }

  /** The next entry; waits through an outage. Rejects with the reason of `signal`, or the server's refusal. */
  next(signal?: AbortSignal): Promise<string> {
    if (this.#closed && !signal?.aborted) return Promise.reject(closedError());
    const entry = this.#waiters.next(signal);
    if (!this.#serving && this.#waiters.size > 0) {
      this.#serving = true;
      this.#loop = this.#serve();
    }
    return entry;
  }

  /** Waiting callers are rejected. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#waiters.rejectAll(closedError());
    await this.#unblock();
    await this.#loop;
    this.#blocking.close();
  }

  async #serve(): Promise<void> {
    while (this.#waiters.size > 0) {
      const spare = this.#spare.shift();
      if (spare !== undefined) {
        this.#waiters.give(spare);
        continue;
      }
      if (!this.#blocking.ready) {
        await this.#blocking.whenReady(AWAY).catch(() => undefined);
        continue;
      }
      try {
        const found = (await this.#blocking.send(["BRPOP", this.#key, String(BLOCK)])) as [string, string] | null;
        if (found === null) continue;
        if (!this.#waiters.give(found[1])) await this.#putBack(found[1]);
      } catch (error) {
        if (error instanceof SluiceError && error.code === "BROKER_UNAVAILABLE") await delay(this.#clock, PAUSE);
        else this.#waiters.rejectAll(error);
      }
    }
    this.#serving = false;
  }

  async #putBack(text: string): Promise<void> {
    await this.#redis.send(["RPUSH", this.#key, text]).catch(() => this.#spare.push(text));
  }

  /** Ends the blocking command early; where the server does not allow that, the command ends after its time. */
  async #unblock(): Promise<void> {
    if (!this.#serving) return;
    const id = await this.#connectionId;
    if (this.#waiters.size > 0) return;
    await this.#redis.send(["CLIENT", "UNBLOCK", String(id)]).catch(() => undefined);
  }
}

function closedError(): SluiceError {
  return new SluiceError("PRODUCER_CLOSED", "the producer was closed");
}
