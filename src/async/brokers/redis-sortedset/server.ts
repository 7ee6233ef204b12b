import type { Clock } from "../../../base/clock/clock.ts";
import type { Random } from "../../../base/clock/random.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import { connectRedis, type Redis } from "../../../base/redis/connection.ts";
import { evictionPolicy } from "../../../base/redis/eviction.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import type { Tracing } from "../../../base/telemetry/tracing.ts";
import type { BrokerEvents } from "../broker.ts";
import type { QueueSettings, RedisSortedSetSettings } from "../settings.ts";
import { dispatcherName } from "./presence.ts";
import { BACKLOG, CLAIM, DUE, MOVE, REINSTATE, RENEW, RUN_OUT, SETTLE } from "./scripts.ts";
import type { SettleBatch } from "./settle-batch.ts";

export interface SortedSetDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly tracing?: Tracing;
}

const SCRIPTS = [CLAIM, SETTLE, RENEW, REINSTATE, RUN_OUT, DUE, MOVE, BACKLOG];

/** The server with the queues: whether it can be used, its announcements, and the doubt whether it still has all leases. */
export class QueueServer {
  readonly #settings: RedisSortedSetSettings;
  readonly #deps: SortedSetDeps;
  readonly #byName: ReadonlyMap<string, QueueSettings>;
  readonly #changed = new Set<QueueSettings>();
  #redis: Redis | undefined;
  #events: BrokerEvents | undefined;
  /** Why this server cannot be used at all. */
  #refusal: SluiceError | undefined;
  #doubt: Promise<void> | undefined;

  constructor(settings: RedisSortedSetSettings, deps: SortedSetDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#byName = new Map(settings.queues.map((queue) => [queue.name, queue]));
  }

  /** @throws SluiceError REDIS_URL_INVALID */
  start(events: BrokerEvents): void {
    this.#events = events;
    this.#redis = connectRedis(this.#settings.redis, this.#deps, {
      name: dispatcherName(this.#settings.queues.map(({ name }) => name)),
      scripts: SCRIPTS,
      writes: true,
      onReady: () => void this.#connected(),
      onChanged: (key) => {
        if (key === undefined) for (const queue of this.#settings.queues) this.announce(queue);
        else this.announce(this.queueOf(key));
      },
    });
  }

  close(): void {
    this.#redis?.close();
  }

  /** Undefined before the start. */
  get events(): BrokerEvents | undefined {
    return this.#events;
  }

  queueOf(name: string): QueueSettings | undefined {
    return this.#byName.get(name);
  }

  /** @throws SluiceError when there is no connection, or the server is of a kind that cannot be used */
  usable(): Redis {
    if (this.#refusal !== undefined) throw this.#refusal;
    if (this.#redis === undefined) throw new SluiceError("BROKER_UNAVAILABLE", "the broker was not started");
    if (!this.#redis.ready) throw this.#redis.absence();
    return this.#redis;
  }

  /** Resolves when no lease is in doubt. Until then nothing may be claimed: this process might hold it already. */
  async sure(): Promise<void> {
    if (this.#doubt !== undefined) await this.#doubt;
  }

  /** Renews all held claims, and so puts back the claims that the store has lost, before more is claimed. */
  doubtLeases(): void {
    if (this.#doubt !== undefined || this.#events === undefined) return;
    this.#doubt = this.#events.doubted().finally(() => {
      this.#doubt = undefined;
    });
  }

  /** In a later turn of the event loop, so that a caller that is reading the present state does not overwrite the news. */
  announce(queue: QueueSettings | undefined): void {
    if (queue === undefined || this.#changed.has(queue)) return;
    this.#changed.add(queue);
    this.#deps.clock.soon(() => {
      this.#changed.delete(queue);
      this.#events?.available(queue);
    });
  }

  /**
   * Asks for an announcement of the queue's next change; with the command before it, that is one round trip.
   * @returns entries in the queue now
   */
  async arm(redis: Redis, queue: QueueSettings): Promise<number> {
    const marked = redis.announces ? redis.send(["CLIENT", "CACHING", "YES"]) : undefined;
    const [waiting] = await Promise.all([redis.send(["ZCARD", queue.name]), marked]);
    return waiting as number;
  }

  /** @param touched queues that the call adds to: the server forgets the announcement when this connection changes a queue */
  async settle(
    redis: Redis,
    batch: SettleBatch,
    touched: Iterable<QueueSettings> = [],
  ): Promise<readonly (number | string)[]> {
    const script = redis.run(SETTLE, batch.keys, batch.args);
    if (redis.announces) for (const queue of touched) this.arm(redis, queue).catch(() => undefined);
    return (await script) as readonly (number | string)[];
  }

  async #connected(): Promise<void> {
    const redis = this.#redis!;
    // The server that answers now may be another one, or the same one with less data.
    this.doubtLeases();
    // A refused answer says nothing about the server's kind.
    const [about, memory] = await Promise.all(
      ["cluster", "memory"].map((section) => redis.send(["INFO", section]).catch(() => "")),
    );
    const before = this.#refusal;
    this.#refusal = String(about).includes("cluster_enabled:1")
      ? new SluiceError(
          "REDIS_CLUSTER",
          `Redis at ${redis.server} runs in cluster mode, which the redis-sortedset transport does not support: use a server without cluster mode (a replica with Sentinel or a managed failover is fine)`,
        )
      : undefined;
    if (this.#refusal !== undefined && before === undefined) this.#deps.log.error({}, this.#refusal.message);
    const policy = evictionPolicy(String(memory));
    if (policy !== undefined)
      this.#deps.log.warn(
        { server: redis.server, policy },
        "Redis may evict queues and results when its memory is full: set maxmemory-policy noeviction",
      );
    // Announcements may have been missed during the break.
    for (const queue of this.#settings.queues)
      this.arm(redis, queue).then(
        (waiting) => {
          if (waiting > 0) this.announce(queue);
        },
        (error) => this.#deps.log.debug({ queue: queue.name, problem: messageOf(error) }, "the queue cannot be read"),
      );
  }
}
