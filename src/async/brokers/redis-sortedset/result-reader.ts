import { type Clock, delay } from "../../../base/clock/clock.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import type { Redis } from "../redis/connection.ts";

/** Seconds that one blocking command lasts; a server that says nothing for longer than SILENCE ms is given up. */
const BLOCK = 5;
const SILENCE = 10_000;
/** Milliseconds between looks for a server that is away, and between attempts at one that takes nothing. */
const AWAY = 1000;
const PAUSE = 250;

interface Waiter {
  resolve(text: string): void;
  reject(error: unknown): void;
}

/**
 * Takes entries from the right end of a list, for as many callers as wait: one blocking command at a time, on a connection
 * of its own. An entry that nobody waits for any more goes back to where it was.
 */
export class ResultReader {
  readonly #redis: Redis;
  readonly #blocking: Redis;
  readonly #clock: Clock;
  readonly #key: string;
  readonly #waiters: Waiter[] = [];
  /** Taken for somebody who left, while the server could not take it back. */
  readonly #spare: string[] = [];
  #connectionId: Promise<unknown> = Promise.resolve(undefined);
  #serving = false;
  #loop: Promise<void> | undefined;
  #closed = false;

  /** @param redis for everything that does not block */
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
    return new Promise((resolve, reject) => {
      if (signal?.aborted || this.#closed) {
        reject(signal?.aborted ? signal.reason : closedError());
        return;
      }
      const leave = (): void => {
        signal?.removeEventListener("abort", onAbort);
        const at = this.#waiters.indexOf(waiter);
        if (at >= 0) this.#waiters.splice(at, 1);
      };
      const onAbort = (): void => {
        leave();
        reject(signal?.reason);
        if (this.#waiters.length === 0) void this.#unblock();
      };
      const waiter: Waiter = {
        resolve(text) {
          leave();
          resolve(text);
        },
        reject(error) {
          leave();
          reject(error);
        },
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiters.push(waiter);
      if (this.#serving) return;
      this.#serving = true;
      this.#loop = this.#serve();
    });
  }

  /** Those who wait are rejected. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const waiter of [...this.#waiters]) waiter.reject(closedError());
    await this.#unblock();
    await this.#loop;
    this.#blocking.close();
  }

  async #serve(): Promise<void> {
    while (this.#waiters.length > 0) {
      const spare = this.#spare.shift();
      if (spare !== undefined) {
        this.#waiters[0]!.resolve(spare);
        continue;
      }
      if (!this.#blocking.ready) {
        await this.#blocking.whenReady(AWAY).catch(() => undefined);
        continue;
      }
      try {
        const found = (await this.#blocking.send(["BRPOP", this.#key, String(BLOCK)])) as [string, string] | null;
        if (found === null) continue;
        const waiter = this.#waiters[0];
        if (waiter === undefined) await this.#putBack(found[1]);
        else waiter.resolve(found[1]);
      } catch (error) {
        if (error instanceof SluiceError && error.code === "BROKER_UNAVAILABLE") await delay(this.#clock, PAUSE);
        else for (const waiter of [...this.#waiters]) waiter.reject(error);
      }
    }
    this.#serving = false;
  }

  async #putBack(text: string): Promise<void> {
    await this.#redis.send(["RPUSH", this.#key, text]).catch(() => this.#spare.push(text));
  }

  /** Ends the blocking command early; where the server does not let us, it ends by itself. */
  async #unblock(): Promise<void> {
    if (!this.#serving) return;
    const id = await this.#connectionId;
    if (this.#waiters.length > 0) return;
    await this.#redis.send(["CLIENT", "UNBLOCK", String(id)]).catch(() => undefined);
  }
}

function closedError(): SluiceError {
  return new SluiceError("PRODUCER_CLOSED", "the producer was closed");
}
