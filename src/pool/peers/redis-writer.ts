import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Redis, RedisArgument } from "../../base/redis/connection.ts";
import { pauseAfter } from "../../base/redis/pause.ts";
import { framed } from "./redis-frame.ts";
import type { PeerKeys } from "./redis-keys.ts";
import { type Batch, Outbox } from "./redis-outbox.ts";
import type { Part } from "./redis-state.ts";

/** Milliseconds that the store keeps a load after its owner was silent. */
export const KEPT = 3000;
/** Milliseconds between two writes of the load into its key: only those who join later read it. */
const KEEP_EVERY = 500;
/** About so many messages stay in the log. */
export const LOG_LENGTH = 4096;
/** Milliseconds after which the store forgets replicas that all are gone, and their log. */
const FORGOTTEN = 600_000;
/** Milliseconds between two promises that somebody is still here, and until one that was refused is tried again. */
const HERE_EVERY = 60_000;
const HERE_AGAIN = 1000;

/** The most batches at the end: a full outbox. */
const MOST_LAST = 20;

interface Deps {
  readonly clock: Clock;
  readonly random: Random;
  readonly keys: PeerKeys;
  works(part: Part): void;
  fails(part: Part, error: unknown): void;
}

/** Figures of what was written. */
export interface Written {
  loads: number;
  placed: number;
  bytes: number;
  /** Milliseconds between the last batch and its last answer; undefined = there was none. */
  answerMs: number | undefined;
}

/**
 * Writes loads and the log: one batch at a time, so that nothing piles up in front of a slow store. When the store refuses the log,
 * because it is full for example, only the log pauses.
 */
export class RedisWriter {
  readonly outbox = new Outbox();
  readonly written: Written = { loads: 0, placed: 0, bytes: 0, answerMs: undefined };
  readonly #deps: Deps;
  readonly #redis: Redis;
  #keptAt = Number.NEGATIVE_INFINITY;
  #hereAt = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #pause: Timer | undefined;
  #sending: Promise<void> | undefined;
  #closed = false;

  constructor(redis: Redis, deps: Deps) {
    this.#redis = redis;
    this.#deps = deps;
  }

  load(message: Uint8Array): void {
    if (this.#closed) return;
    this.outbox.putLoad(framed(message));
    this.#send();
  }

  placed(message: Uint8Array): void {
    if (this.#closed) return;
    this.outbox.putPlaced(framed(message));
    this.#send();
  }

  /** The connection is ready, perhaps to a store that has lost everything. */
  connected(): void {
    this.#keptAt = Number.NEGATIVE_INFINITY;
    this.#hereAt = Number.NEGATIVE_INFINITY;
    this.#failures = 0;
    this.#pause?.cancel();
    this.#pause = undefined;
    this.#send();
  }

  /**
   * Writes what waits, takes the load out of the store, and ends the connection.
   * @param limit milliseconds for all of it
   */
  async close(limit: number): Promise<void> {
    this.#closed = true;
    this.#pause?.cancel();
    this.#pause = undefined;
    let timer: Timer | undefined;
    const late = new Promise<void>((resolve) => {
      timer = this.#deps.clock.after(limit, resolve);
    });
    await Promise.race([late, this.#last()]);
    timer?.cancel();
    this.outbox.clear();
    this.#redis.close();
  }

  async #last(): Promise<void> {
    await this.#sending;
    for (let n = 0; this.#redis.ready && this.#hasWork && n < MOST_LAST; n++) await this.#write(this.outbox.take(true));
    const { own, members, id } = this.#deps.keys;
    await Promise.allSettled([this.#redis.send(["DEL", own]), this.#redis.send(["SREM", members, id])]);
  }

  get #hasWork(): boolean {
    return this.outbox.hasLoad || (this.outbox.waiting > 0 && this.#pause === undefined);
  }

  #send(): void {
    if (this.#sending !== undefined || this.#closed || !this.#redis.ready || !this.#hasWork) return;
    this.#sending = this.#write(this.outbox.take(this.#pause === undefined)).finally(() => {
      this.#sending = undefined;
      this.#send();
    });
  }

  /** Writes a batch. Never rejects. */
  async #write({ load, placed }: Batch): Promise<void> {
    const { clock, keys } = this.#deps;
    const begun = clock.now();
    const asked: Promise<unknown>[] = [];
    if (load !== undefined) {
      asked.push(this.#ask(["PUBLISH", keys.channel, load]));
      if (begun - this.#keptAt >= KEEP_EVERY) {
        this.#keptAt = begun;
        asked.push(this.#ask(["SET", keys.own, load, "PX", String(KEPT)]));
        void this.#ask(["SADD", keys.members, keys.id]);
      }
      this.written.loads++;
      this.written.bytes += load.length;
    }
    const answers = placed.map((frame) =>
      this.#ask(["XADD", keys.log, "MAXLEN", "~", String(LOG_LENGTH), "*", "m", frame]),
    );
    if (begun - this.#hereAt >= HERE_EVERY) {
      this.#hereAt = begun;
      for (const key of [keys.members, keys.log]) void this.#promise(key, begun);
    }
    const confirmed = await Promise.all(answers);
    await Promise.all(asked);
    this.outbox.giveBack(placed.filter((_, i) => !confirmed[i]));
    for (const [i, frame] of placed.entries()) {
      if (!confirmed[i]) continue;
      this.written.placed++;
      this.written.bytes += frame.length;
    }
    // The connection tells its own end, and comes back by itself.
    if (!this.#redis.ready) return;
    this.written.answerMs = clock.now() - begun;
    if (confirmed.every(Boolean)) {
      if (placed.length > 0) this.#failures = 0;
      return;
    }
    this.#pause = clock.after(
      pauseAfter(this.#failures++, this.#deps.random),
      () => {
        this.#pause = undefined;
        this.#send();
      },
      true,
    );
  }

  /** Somebody is still here, so the store keeps the key. */
  async #promise(key: string, now: number): Promise<void> {
    if (await this.#ask(["PEXPIRE", key, String(FORGOTTEN)])) return;
    this.#hereAt = Math.min(this.#hereAt, now - HERE_EVERY + HERE_AGAIN);
  }

  /** Whether the store did it. Never rejects. */
  async #ask(command: readonly [Part, ...RedisArgument[]]): Promise<boolean> {
    const [part] = command;
    try {
      await this.#redis.send(command);
      this.#deps.works(part);
      return true;
    } catch (error) {
      if (this.#redis.ready) this.#deps.fails(part, error);
      return false;
    }
  }
}
