import type { Clock, Timer } from "../../../base/clock/clock.ts";
import type { Random } from "../../../base/clock/random.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import { connectRedis, type Redis } from "../../../base/redis/connection.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import type { Tracing } from "../../../base/telemetry/tracing.ts";
import type {
  Broker,
  BrokerEvents,
  Claim,
  ClaimRequest,
  ClaimResult,
  QueueBacklog,
  Settlement,
  SettleOutcome,
} from "../broker.ts";
import { encodeEnvelope } from "../messages/envelope.ts";
import { encodeResult } from "../messages/result.ts";
import type { QueueSettings, RedisPubSubSettings } from "../settings.ts";
import { Channel } from "./channel.ts";
import { RetrySet, TAKE_DUE } from "./retry-set.ts";

/** Milliseconds between two checks whether the connection that only listens still works. */
const ALIVE = 10_000;

/** Most retries in memory: they are lost with the process. */
const HANDED_OVER = 100;

/** Entries per command when all entries are put back at the end. */
const PER_COMMAND = 100;

export interface RedisPubSubDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly tracing?: Tracing;
}

/**
 * Redis channels (async-processor 5.3): a processor that is away or slow misses messages, and every replica gets every message.
 * Claims are held in memory only. Retried, refused and unfinished messages wait in Redis, where one replica takes them.
 */
export function redisPubSubBroker(settings: RedisPubSubSettings, deps: RedisPubSubDeps): Broker {
  return new RedisPubSubBroker(settings, deps);
}

class RedisPubSubBroker implements Broker {
  readonly #settings: RedisPubSubSettings;
  readonly #deps: RedisPubSubDeps;
  readonly #channels = new Map<string, Channel>();
  /** Claims that were handed out and not settled. */
  readonly #held = new Map<string, Claim>();
  /** The held claims whose settlement failed before. */
  readonly #failed = new Set<string>();
  #events: BrokerEvents | undefined;
  #listener: Redis | undefined;
  #redis: Redis | undefined;
  #retries: RetrySet | undefined;
  #alive: Timer | undefined;

  constructor(settings: RedisPubSubSettings, deps: RedisPubSubDeps) {
    this.#settings = settings;
    this.#deps = deps;
  }

  start(events: BrokerEvents): void {
    const { redis, queues, retryQueueName } = this.#settings;
    const { clock, log } = this.#deps;
    log.warn(
      { channels: queues.map(({ name }) => name) },
      "the transport redis-pubsub does not guarantee delivery: messages are lost while no dispatcher listens or the dispatcher is too slow, and every replica sends each message",
    );
    this.#events = events;
    this.#redis = connectRedis(redis, this.#deps, { scripts: [TAKE_DUE] });
    this.#listener = this.#redis.another({});
    const names = queues.map(({ name }) => name);
    this.#retries = new RetrySet(this.#redis, retryQueueName, names, clock);
    for (const queue of queues) {
      const channel = new Channel(queue, this.#deps, {
        available: () => events.available(queue),
        unreadable: (result, reason) => {
          if (result !== undefined) this.#publish(encodeResult(result)).catch(() => undefined);
          events.deadLettered(queue, reason);
        },
      });
      this.#channels.set(queue.name, channel);
      this.#listener.subscribe(queue.name, (text) => channel.receive(text));
    }
    this.#watch();
  }

  async claim(queue: QueueSettings, request: ClaimRequest): Promise<ClaimResult> {
    const channel = this.#channels.get(queue.name);
    const { retries } = this.#running();
    if (channel === undefined) throw new SluiceError("QUEUE_UNKNOWN", `no channel ${queue.name} is configured`);
    const time = retries.time;
    const claims = channel.take(request, time);
    for (const claim of claims) this.#held.set(claim.id, claim);
    return { claims, waiting: channel.waiting, time };
  }

  settle(settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]> {
    // All are sent in this turn of the event loop: one round trip for all.
    return Promise.all(settlements.map((settlement) => this.#settle(settlement)));
  }

  async renew(): Promise<readonly Claim[]> {
    return [];
  }

  async cancelled(claims: readonly Claim[]): Promise<readonly boolean[]> {
    return claims.map(() => false);
  }

  /** Takes due retries into memory, as many as claims have made room for. */
  async moveDue(): Promise<number> {
    const { retries } = this.#running();
    let room = HANDED_OVER;
    for (const channel of this.#channels.values()) room -= channel.retries;
    if (retries.wait === 0 && room > 0)
      for (const { queueName, text } of await retries.take(room)) this.#channels.get(queueName)!.receiveRetry(text);
    return Math.min(this.#settings.pollInterval, retries.wait);
  }

  /** There are no leases: messages in the hands of a process are lost with it. */
  async reclaim(): Promise<void> {}

  async check(): Promise<void> {
    const { redis, listener } = this.#running();
    await redis.send(["PING"]);
    if (!listener.ready)
      throw new SluiceError("BROKER_UNAVAILABLE", `Redis at ${listener.server} cannot be used: no channel is open`);
  }

  async backlog(): Promise<QueueBacklog> {
    const unknown = Number.NaN;
    return { waiting: unknown, claimed: unknown, retries: unknown, dead: unknown, nextDeadline: unknown };
  }

  async close(): Promise<void> {
    if (this.#retries === undefined) return;
    this.#alive?.cancel();
    this.#listener?.close();
    await this.#putBack(this.#retries);
    this.#redis?.close();
  }

  #running(): { redis: Redis; listener: Redis; retries: RetrySet } {
    const redis = this.#redis;
    const listener = this.#listener;
    const retries = this.#retries;
    if (redis === undefined || listener === undefined || retries === undefined)
      throw new SluiceError("BROKER_UNAVAILABLE", "the broker was not started");
    return { redis, listener, retries };
  }

  async #settle(settlement: Settlement): Promise<SettleOutcome> {
    const { claim } = settlement;
    if (!this.#held.has(claim.id)) return "fenced";
    if (this.#failed.delete(claim.id)) this.#events?.writeRetried();
    try {
      await this.#write(settlement);
    } catch (error) {
      this.#failed.add(claim.id);
      return { failed: messageOf(error) };
    }
    this.#held.delete(claim.id);
    return "settled";
  }

  async #write(settlement: Settlement): Promise<void> {
    const { retries } = this.#running();
    const { message } = settlement.claim;
    switch (settlement.kind) {
      case "result":
      case "dead":
        await this.#publish(encodeResult(settlement.result));
        return;
      case "retry": {
        const { retryCount, labels, due } = settlement;
        await retries.park([encodeEnvelope({ ...message, routing: { ...message.routing, retryCount, labels } })], due);
        return;
      }
      case "refuse": {
        const { labels } = settlement;
        const entry = encodeEnvelope({ ...message, routing: { ...message.routing, labels } });
        await retries.park([entry], retries.time / 1000);
      }
    }
  }

  async #publish(text: string): Promise<void> {
    await this.#running().redis.send(["PUBLISH", this.#settings.resultQueueName, text]);
  }

  /** A connection without commands would not notice a dead server. */
  #watch(): void {
    this.#alive = this.#deps.clock.after(
      ALIVE,
      () => {
        this.#listener?.send(["PING"]).catch(() => undefined);
        this.#watch();
      },
      true,
    );
  }

  async #putBack(retries: RetrySet): Promise<void> {
    const left = [...this.#held.values(), ...[...this.#channels.values()].flatMap((channel) => channel.all())];
    this.#held.clear();
    for (let from = 0; from < left.length; from += PER_COMMAND) {
      const entries = left.slice(from, from + PER_COMMAND).map(({ message }) => encodeEnvelope(message));
      try {
        await retries.park(entries, retries.time / 1000);
      } catch (error) {
        const lost = left.length - from;
        this.#deps.log.error(
          { lost, error: messageOf(error) },
          "messages in memory are lost: Redis did not store them",
        );
        return;
      }
    }
  }
}
