import { type Clock, delay, type Timer } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { type RedisScript, readScript } from "../../base/redis/script.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { GateRedis } from "./redis-parameters.ts";

/** The place where the reservations of a quota are counted, for all processes together. */
export interface QuotaStore {
  /**
   * Takes one place of the quota `key` under the name `member`.
   * @returns false = the quota is used up, and nothing was taken
   * @throws when the store gives no answer; the place may still be taken
   */
  reserve(key: string, member: string): Promise<boolean>;
  /** Reports that these places are still in use. @throws when the store cannot be reached */
  renew(key: string, members: readonly string[]): Promise<void>;
  /** Gives places back; places that are gone already are ignored. @throws when the store cannot be reached */
  giveBack(key: string, members: readonly string[]): Promise<void>;
  close(): void;
}

/** Most names of places in one command. */
const MOST_AT_ONCE = 1_000;
/** Milliseconds that a reservation waits for a connection: enough for the first one, and for a server that restarts. */
const CONNECT_LIMIT = 5_000;
const TAKE_TOKEN = readScript(import.meta.dirname, "quota-key.lua", "quota-take-token.lua");
const TAKE_SLOT = readScript(import.meta.dirname, "quota-key.lua", "quota-take-slot.lua");
const KEEP_SLOTS = readScript(import.meta.dirname, "quota-key.lua", "quota-keep-slots.lua");

/** The scripts that a server needs for quotas. */
export const QUOTA_SCRIPTS: readonly RedisScript[] = [TAKE_TOKEN, TAKE_SLOT, KEEP_SLOTS];

/** The common part of both modes. */
class RedisQuota {
  protected readonly redis: GateRedis;

  constructor(redis: GateRedis) {
    this.redis = redis;
  }

  protected async take(script: RedisScript, key: string, args: readonly string[]): Promise<boolean> {
    if (!this.redis.ready) await this.redis.whenReady(CONNECT_LIMIT);
    return (await this.redis.run(script, [key], args)) === 1;
  }

  async giveBack(key: string, members: readonly string[]): Promise<void> {
    await Promise.all(portions(members).map((portion) => this.redis.send(["ZREM", key, ...portion])));
  }

  close(): void {
    this.redis.close();
  }
}

/** At most `limit` tokens within any window; each token leaves when the window has passed it. */
export class RedisRateLimit extends RedisQuota implements QuotaStore {
  readonly #args: readonly string[];

  /** @param window milliseconds, > 0 */
  constructor(redis: GateRedis, limit: number, window: number) {
    super(redis);
    const life = window < 1_000 ? 3_600_000 : 2 * window;
    this.#args = [String(limit), String(window), String(Math.ceil(life))];
  }

  reserve(key: string, member: string): Promise<boolean> {
    return this.take(TAKE_TOKEN, key, [member, ...this.#args]);
  }

  /** Tokens have no lease. */
  async renew(): Promise<void> {}
}

/** At most `limit` places with leases that have not run out. */
export class RedisConcurrency extends RedisQuota implements QuotaStore {
  readonly #limit: string;
  readonly #lease: string;

  /** @param lease milliseconds, > 0 */
  constructor(redis: GateRedis, limit: number, lease: number) {
    super(redis);
    this.#limit = String(limit);
    this.#lease = String(Math.ceil(lease));
  }

  reserve(key: string, member: string): Promise<boolean> {
    return this.take(TAKE_SLOT, key, [member, this.#limit, this.#lease]);
  }

  async renew(key: string, members: readonly string[]): Promise<void> {
    await Promise.all(portions(members).map((portion) => this.redis.run(KEEP_SLOTS, [key], [this.#lease, ...portion])));
  }
}

function portions(members: readonly string[]): readonly (readonly string[])[] {
  const found: (readonly string[])[] = [];
  for (let at = 0; at < members.length; at += MOST_AT_ONCE) found.push(members.slice(at, at + MOST_AT_ONCE));
  return found;
}

/** Most places whose return failed and is tried again; beyond it the oldest is dropped: it frees itself within one window. */
export const MAX_PENDING = 10_000;
/** Milliseconds until the first repetition, and the longest pause after doublings. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 5_000;
/** Milliseconds that closing may take. */
const CLOSE_LIMIT = 1_000;

interface Place {
  readonly key: string;
  readonly member: string;
}

/**
 * Gives places of quotas back in the background: no caller waits for it, and it never throws. The first attempt leaves at once,
 * on the connection of the reservations, so that the next reservation finds the place free.
 */
export class GiveBack {
  readonly #store: QuotaStore;
  readonly #clock: Clock;
  readonly #log: Logger;
  /** In the order in which they failed. */
  readonly #failed = new Set<Place>();
  readonly #running = new Set<Promise<void>>();
  #timer: Timer | undefined;
  #pause = FIRST_PAUSE;
  #closed = false;

  constructor(store: QuotaStore, clock: Clock, log: Logger) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
  }

  /** How many places wait to be given back again. */
  get pending(): number {
    return this.#failed.size;
  }

  give(key: string, member: string): void {
    const places = [{ key, member }];
    // A store that neither answers nor fails must not collect an unlimited number of calls.
    if (this.#running.size >= MAX_PENDING) this.#keep(places, "the store does not answer");
    else this.#send(key, places);
  }

  #send(key: string, places: readonly Place[]): void {
    const sent = this.#store
      .giveBack(
        key,
        places.map(({ member }) => member),
      )
      .then(
        () => {
          this.#pause = FIRST_PAUSE;
        },
        (error) => this.#keep(places, error),
      )
      .finally(() => this.#running.delete(sent));
    this.#running.add(sent);
  }

  #keep(places: readonly Place[], error: unknown): void {
    for (const place of places) {
      this.#failed.add(place);
      if (this.#failed.size > MAX_PENDING)
        for (const oldest of this.#failed) {
          this.#failed.delete(oldest);
          break;
        }
    }
    if (this.#timer !== undefined || this.#closed) return;
    this.#log.warn(
      { error: messageOf(error), places: this.#failed.size },
      "Quota places not released; Sluice tries again",
    );
    this.#timer = this.#clock.after(this.#pause, () => this.#retry(), true);
    this.#pause = Math.min(LONGEST_PAUSE, this.#pause * 2);
  }

  #retry(): void {
    this.#timer = undefined;
    const byKey = new Map<string, Place[]>();
    for (const place of this.#failed) {
      const places = byKey.get(place.key);
      if (places === undefined) byKey.set(place.key, [place]);
      else places.push(place);
    }
    this.#failed.clear();
    for (const [key, places] of byKey) this.#send(key, places);
  }

  /** Tries the remaining places once more; places that a store does not take within a second free themselves later. */
  async close(): Promise<void> {
    const limit = new AbortController();
    const end = delay(this.#clock, CLOSE_LIMIT, limit.signal).catch(() => {});
    await Promise.race([Promise.all(this.#running), end]);
    this.#closed = true;
    this.#timer?.cancel();
    this.#retry();
    await Promise.race([Promise.all(this.#running), end]);
    limit.abort();
  }
}
