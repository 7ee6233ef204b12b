import type { Clock } from "../../../base/clock/clock.ts";
import type { Random } from "../../../base/clock/random.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import type { RedisConnection } from "../../../base/redis/address.ts";
import { connectRedis, type Redis, type RedisReply } from "../../../base/redis/connection.ts";
import { evictionPolicy } from "../../../base/redis/eviction.ts";
import type { RedisScript } from "../../../base/redis/script.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import { ALL_SCRIPTS } from "./scripts.ts";

/** Milliseconds for which a command waits for a store that has just gone, before it is an error. */
const PATIENCE = 2000;
/** Milliseconds of the longest silence of the store: a command that takes longer ends its connection. */
const SILENCE = 5000;
/** Every key begins so: for access lists. */
const KEY_PREFIX = "sluice:batches:";

export interface LinkOptions {
  readonly connection: RedisConnection;
  /** Processes of one name share batches; no braces. */
  readonly name: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
}

/**
 * One connection to the store. Every script may run twice with the effect of once, so a command whose answer was lost goes out
 * again when the store is back within two seconds.
 */
export class StoreLink {
  readonly #redis: Redis;
  readonly #base: string;
  readonly #clock: Clock;
  readonly #log: Logger;
  /** Monotonic milliseconds; undefined = the store is away. */
  #readyAt: number | undefined;
  #awayAt: number;

  /** @throws SluiceError REDIS_URL_INVALID */
  constructor({ connection, name, clock, random, log }: LinkOptions) {
    this.#base = `${KEY_PREFIX}{${name}}`;
    this.#clock = clock;
    this.#log = log;
    this.#awayAt = clock.now();
    this.#redis = connectRedis(
      connection,
      { clock, random, log },
      {
        ...{ name: "sluice-batches", scripts: ALL_SCRIPTS, writes: true, slotOf: this.#base, commandTimeout: SILENCE },
        onReady: () => {
          this.#readyAt = clock.now();
          void this.#advise();
        },
        onAway: () => {
          if (this.#readyAt !== undefined) this.#awayAt = clock.now();
          this.#readyAt = undefined;
        },
      },
    );
  }

  /** Milliseconds since the connection began; 0 while there is none. */
  get age(): number {
    return this.#readyAt === undefined ? 0 : this.#clock.now() - this.#readyAt;
  }

  key(...parts: readonly string[]): string {
    return [this.#base, ...parts].join(":");
  }

  /** @throws SluiceError BROKER_UNAVAILABLE, REDIS_REFUSED */
  run(script: RedisScript, ...args: readonly (string | number)[]): Promise<RedisReply> {
    return this.#twice(() => this.#redis.run(script, [this.#base], args.map(String)));
  }

  /** A command that may run twice. @throws as `run` */
  send(...args: readonly (string | number)[]): Promise<RedisReply> {
    return this.#twice(() => this.#redis.send(args.map(String)));
  }

  /** Waits for the store at a start. @param limit milliseconds @throws SluiceError BROKER_UNAVAILABLE */
  whenReady(limit: number): Promise<void> {
    return this.#redis.whenReady(limit);
  }

  close(): void {
    this.#redis.close();
  }

  async #twice(work: () => Promise<RedisReply>): Promise<RedisReply> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof SluiceError) || error.code !== "BROKER_UNAVAILABLE") throw error;
      const left = this.#redis.ready ? PATIENCE : this.#awayAt + PATIENCE - this.#clock.now();
      if (left <= 0) throw error;
      await this.#redis.whenReady(left);
      return work();
    }
  }

  /** Says what of the server's settings would lose batches. */
  async #advise(): Promise<void> {
    const [memory, persistence] = await Promise.all(
      ["memory", "persistence"].map((section) => this.#redis.send(["INFO", section]).then(String, () => "")),
    );
    const { server } = this.#redis;
    const policy = evictionPolicy(memory!);
    if (policy !== undefined)
      this.#log.warn(
        { server, policy },
        "Redis may evict batches when its memory is full: set maxmemory-policy noeviction",
      );
    if (/^aof_enabled:0\r?$/m.test(persistence!))
      this.#log.warn(
        { server },
        "Redis has no append-only file, so a restart of Redis may lose batches: set appendonly yes",
      );
  }
}
