import { messageOf } from "../../../base/inference/errors.ts";
import type { Redis } from "../../../base/redis/connection.ts";
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
import type { QueueSettings, RedisSortedSetSettings } from "../settings.ts";
import { jumpMessage, StoreClock } from "../store-clock.ts";
import { areCancelled, Claimer } from "./claimer.ts";
import { HeldClaims } from "./held-claims.ts";
import { checkKeys, readBacklog } from "./inspector.ts";
import { LostAnswers } from "./lost-answers.ts";
import { adoptAbandoned, moveDue, reclaimRunOut } from "./requeue.ts";
import { SETTLED } from "./scripts.ts";
import { QueueServer, type SortedSetDeps } from "./server.ts";
import { SettleBatch } from "./settle-batch.ts";

/**
 * Redis sorted sets with leases (async-processor 5.2). Producers write the format of other processors, and those may pop from
 * the same queues. Not for Redis Cluster, where the keys of one step would lie on several servers.
 * @throws SluiceError REDIS_URL_INVALID
 */
export function redisSortedSetBroker(settings: RedisSortedSetSettings, deps: SortedSetDeps): Broker {
  return new SortedSetBroker(settings, deps);
}

class SortedSetBroker implements Broker {
  readonly #settings: RedisSortedSetSettings;
  readonly #deps: SortedSetDeps;
  readonly #server: QueueServer;
  readonly #claimer: Claimer;
  readonly #held: HeldClaims;
  readonly #lost = new LostAnswers();
  readonly #storeClock: StoreClock;
  /** False once the server has refused the keys of llm-d-async. */
  #adopts = true;

  constructor(settings: RedisSortedSetSettings, deps: SortedSetDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#server = new QueueServer(settings, deps);
    this.#storeClock = new StoreClock(deps.clock, settings.leases.claimTtl);
    this.#claimer = new Claimer(this.#server, settings, deps, this.#lost, this.#storeClock);
    this.#held = new HeldClaims(this.#server, settings, this.#lost);
  }

  start(events: BrokerEvents): void {
    this.#server.start(events);
  }

  claim(queue: QueueSettings, request: ClaimRequest): Promise<ClaimResult> {
    return this.#claimer.claim(queue, request);
  }

  settle(settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]> {
    return this.#held.settle(settlements);
  }

  renew(claims: readonly Claim[]): Promise<readonly Claim[]> {
    return this.#held.renew(claims);
  }

  async cancelled(claims: readonly Claim[]): Promise<readonly boolean[]> {
    return areCancelled(this.#server.usable(), claims);
  }

  async moveDue(): Promise<number> {
    const { retryQueueName, pollInterval } = this.#settings;
    const { queueNames, buried, next } = await moveDue(this.#server.usable(), retryQueueName);
    // The server does not report this connection's own changes.
    for (const name of queueNames) this.#server.announce(this.#server.queueOf(name));
    if (buried > 0)
      this.#deps.log.warn(
        { set: retryQueueName, buried },
        "some retries cannot return to a queue and became dead letters",
      );
    return Math.min(next, pollInterval);
  }

  async reclaim(held: ReadonlySet<string>): Promise<void> {
    const redis = this.#server.usable();
    for (const { queue, claimIds } of this.#lost.claims(this.#deps.clock.now())) {
      const batch = new SettleBatch(this.#settings);
      for (const id of claimIds) if (!held.has(id)) batch.giveBack(queue, id);
      const outcomes = await this.#server.settle(redis, batch);
      if (outcomes.includes(SETTLED)) this.#server.announce(queue);
    }
    const at = this.#deps.clock.now();
    let first: number | undefined;
    for (const queue of this.#settings.queues) {
      const { requeued, buried, time, jump } = await reclaimRunOut(redis, queue, this.#settings, this.#storeClock);
      if (first === undefined && jump !== 0) this.#deps.log.warn({ server: redis.server }, jumpMessage(jump));
      first ??= time;
      for (const reason of buried) this.#server.events?.deadLettered(queue, reason);
      const back = requeued + (await this.#adopt(redis, queue));
      if (back === 0) continue;
      this.#server.events?.reclaimed(queue, back);
      this.#server.announce(queue);
    }
    // Only now: until then, some queues do not know of a jump of the clock.
    if (first !== undefined) this.#storeClock.heard(first, at);
  }

  /** @returns requests of llm-d-async that are back in the queue */
  async #adopt(redis: Redis, queue: QueueSettings): Promise<number> {
    if (!this.#adopts) return 0;
    const { log } = this.#deps;
    try {
      const count = await adoptAbandoned(redis, queue.name);
      if (count > 0)
        log.info({ queue: queue.name, count }, "took over requests that llm-d-async claimed and does not renew");
      return count;
    } catch (error) {
      // The own leases do not depend on these keys, which an access list may forbid and another program may use.
      const problem = messageOf(error);
      if (!/\b(NOPERM|WRONGTYPE)\b/.test(problem)) throw error;
      this.#adopts = false;
      log.warn(
        { queue: queue.name, problem },
        "cannot take over requests that llm-d-async claimed; Sluice does not try again",
      );
      return 0;
    }
  }

  async check(): Promise<void> {
    await checkKeys(this.#server.usable(), this.#settings);
  }

  async backlog(queue: QueueSettings): Promise<QueueBacklog> {
    return readBacklog(this.#server.usable(), queue.name, this.#settings.retryQueueName);
  }

  async close(): Promise<void> {
    this.#server.close();
  }
}
