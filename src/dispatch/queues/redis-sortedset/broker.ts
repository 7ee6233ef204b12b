import { randomBytes } from "node:crypto";
import type { Clock } from "../../../clock/clock.ts";
import type { Random } from "../../../clock/random.ts";
import { messageOf, SluiceError } from "../../../inference/errors.ts";
import type { Logger } from "../../../telemetry/logger.ts";
import type { Tracing } from "../../../telemetry/tracing.ts";
import type { QueueSettings, RedisSortedSetSettings } from "../../settings.ts";
import type {
  Backlog,
  Broker,
  BrokerEvents,
  Claim,
  ClaimRequest,
  ClaimResult,
  Settlement,
  SettleOutcome,
} from "../broker.ts";
import { connectRedis, type Redis } from "../redis/connection.ts";
import { AnswerLost } from "../redis/reply-error.ts";
import { readBacklog } from "./backlog.ts";
import { CLAIM } from "./claim-script.ts";
import { BACKLOG } from "./inspect-scripts.ts";
import { CANCEL_PREFIX, claimsKey, leasesKey } from "./keys.ts";
import { RENEW, RUN_OUT } from "./lease-scripts.ts";
import { LostAnswers } from "./lost-answers.ts";
import { reclaimRunOut } from "./reclaimer.ts";
import { moveDue } from "./retry-mover.ts";
import { DUE, MOVE } from "./retry-scripts.ts";
import { SettleBatch } from "./settle-batch.ts";
import { DEAD_LETTERED, FENCED, SETTLE, SETTLED } from "./settle-script.ts";
import { type Taken, takeIn } from "./take-in.ts";

export interface SortedSetDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly tracing?: Tracing;
}

/** Entries of each sort that one claim takes at most: what holds up the server is bounded, whatever is asked for. */
const MOST_CLAIMED = 1000;
/** Bytes of entries after which a claim stops, and characters of texts after which a settlement is split. */
const MOST_BYTES = 4 * 1024 * 1024;

const SCRIPTS = [CLAIM, SETTLE, RENEW, RUN_OUT, DUE, MOVE, BACKLOG];

/**
 * Redis sorted sets with leases (async-processor 5.2): what producers write is what other processors of the format write,
 * and others may pop from the same queues. Not for Redis Cluster, where the keys of one step would lie on several servers.
 * @throws SluiceError REDIS_URL_INVALID
 */
export function redisSortedSetBroker(settings: RedisSortedSetSettings, deps: SortedSetDeps): Broker {
  return new SortedSetBroker(settings, deps);
}

class SortedSetBroker implements Broker {
  readonly #settings: RedisSortedSetSettings;
  readonly #deps: SortedSetDeps;
  readonly #byName: ReadonlyMap<string, QueueSettings>;
  /** In front of every claim id of this process: no two processes share it, so no id is ever used twice. */
  readonly #owner = `${randomBytes(12).toString("base64url")}:`;
  readonly #lost = new LostAnswers();
  #redis: Redis | undefined;
  #events: BrokerEvents | undefined;
  #nextClaim = 1;
  /** Why this server cannot be used at all. */
  #refusal: SluiceError | undefined;
  readonly #changed = new Set<QueueSettings>();

  constructor(settings: RedisSortedSetSettings, deps: SortedSetDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#byName = new Map(settings.queues.map((queue) => [queue.name, queue]));
  }

  start(events: BrokerEvents): void {
    this.#events = events;
    this.#redis = connectRedis(this.#settings.redis, this.#deps, {
      scripts: SCRIPTS,
      onReady: () => void this.#connected(),
      onChanged: (key) => {
        if (key === undefined) for (const queue of this.#settings.queues) this.#announce(queue);
        else this.#announce(this.#byName.get(key));
      },
    });
  }

  async claim(queue: QueueSettings, { max, expired }: ClaimRequest): Promise<ClaimResult> {
    const redis = this.#usable();
    const live = Math.min(max, MOST_CLAIMED);
    const late = Math.min(expired, MOST_CLAIMED);
    const first = this.#nextClaim;
    this.#nextClaim += live + late;
    const script = redis.run(
      CLAIM,
      [queue.name, claimsKey(queue.name), leasesKey(queue.name)],
      [
        ...[String(live), String(late), this.#owner, String(first), String(this.#settings.leases.claimTtl)],
        ...[CANCEL_PREFIX, String(MOST_BYTES)],
      ],
    );
    let answer: readonly (string | number | null)[];
    let waiting: number;
    try {
      // What was claimed is claimed, also when the server does not say how much is left.
      const armed = this.#arm(redis, queue).catch(() => Number.NaN);
      [answer, waiting] = (await Promise.all([script, armed])) as [typeof answer, typeof waiting];
    } catch (error) {
      if (!(error instanceof AnswerLost)) throw error;
      const claimIds = Array.from({ length: live + late }, (_, i) => this.#owner + (first + i));
      const until = this.#deps.clock.now() + this.#settings.leases.claimTtl;
      this.#lost.claimed({ queue, claimIds, until });
      throw error;
    }
    const taken = takeIn({ queue, settings: this.#settings, owner: this.#owner, first, live }, answer);
    if (taken.aside.size > 0) await this.#setAside(redis, queue, taken);
    return { claims: await this.#marked(taken), waiting, time: answer[0] as number };
  }

  async settle(settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]> {
    const redis = this.#usable();
    const outcomes: SettleOutcome[] = [];
    while (outcomes.length < settlements.length) {
      const from = outcomes.length;
      const batch = new SettleBatch(this.#settings);
      for (let i = from; i < settlements.length && batch.volume < MOST_BYTES; i++) batch.add(settlements[i]!);
      const part = settlements.slice(from, from + batch.size);
      let answer: readonly (number | string)[];
      try {
        answer = await this.#run(redis, batch, refusedQueues(part));
      } catch (error) {
        if (error instanceof AnswerLost) this.#lost.settled(part.map(({ claim }) => claim.id));
        if (from === 0) throw error;
        const failed = messageOf(error);
        return [...outcomes, ...settlements.slice(from).map(() => ({ failed }))];
      }
      for (const [i, { claim }] of part.entries()) outcomes.push(this.#outcome(claim, answer[i]!));
    }
    return outcomes;
  }

  async renew(claims: readonly Claim[]): Promise<readonly Claim[]> {
    const redis = this.#usable();
    if (claims.length === 0) return [];
    const keys: string[] = [];
    const numbers = new Map<string, string>();
    const args = [String(this.#settings.leases.claimTtl)];
    for (const { id, queue } of claims) {
      let number = numbers.get(queue.name);
      if (number === undefined) {
        number = String(keys.push(claimsKey(queue.name)));
        keys.push(leasesKey(queue.name));
        numbers.set(queue.name, number);
      }
      args.push(number, id);
    }
    const lost = ((await redis.run(RENEW, keys, args)) as readonly number[]).map((at) => claims[at]!);
    for (const claim of lost) claim.lost = true;
    return lost;
  }

  async cancelled(claims: readonly Claim[]): Promise<readonly boolean[]> {
    const redis = this.#usable();
    const marks = await readMarks(
      redis,
      claims.filter(hasToken).map(({ message }) => message.request.id),
    );
    return claims.map((claim) => hasToken(claim) && marks.get(claim.message.request.id) === tokenOf(claim));
  }

  async moveDue(): Promise<number> {
    const { retryQueueName, pollInterval } = this.#settings;
    const { queueNames, buried, next } = await moveDue(this.#usable(), retryQueueName);
    // The server does not tell us of our own changes.
    for (const name of queueNames) this.#announce(this.#byName.get(name));
    if (buried > 0)
      this.#deps.log.warn({ set: retryQueueName, buried }, "retries that cannot be queued again are dead letters");
    return Math.min(next, pollInterval);
  }

  async reclaim(held: ReadonlySet<string>): Promise<void> {
    const redis = this.#usable();
    for (const { queue, claimIds } of this.#lost.claims(this.#deps.clock.now())) {
      const batch = new SettleBatch(this.#settings);
      for (const id of claimIds) if (!held.has(id)) batch.giveBack(queue, id);
      const outcomes = await this.#run(redis, batch);
      if (outcomes.includes(SETTLED)) this.#announce(queue);
    }
    for (const queue of this.#settings.queues) {
      const { requeued, buried } = await reclaimRunOut(redis, queue, this.#settings);
      for (const reason of buried) this.#events?.deadLettered(queue, reason);
      if (requeued === 0) continue;
      this.#events?.reclaimed(queue, requeued);
      this.#announce(queue);
    }
  }

  async check(): Promise<void> {
    await this.#usable().send(["PING"]);
  }

  async backlog(queue: QueueSettings): Promise<Backlog> {
    return readBacklog(this.#usable(), queue.name, this.#settings.retryQueueName);
  }

  async close(): Promise<void> {
    this.#redis?.close();
  }

  /** @throws SluiceError when there is no connection, or the server is of a kind that cannot be used */
  #usable(): Redis {
    if (this.#refusal !== undefined) throw this.#refusal;
    if (this.#redis === undefined) throw new SluiceError("BROKER_UNAVAILABLE", "the broker was not started");
    if (!this.#redis.ready) throw this.#redis.absence();
    return this.#redis;
  }

  async #connected(): Promise<void> {
    const redis = this.#redis!;
    // An answer that is refused says nothing about the server's kind.
    const about = await redis.send(["INFO", "cluster"]).catch(() => "");
    const before = this.#refusal;
    this.#refusal = String(about).includes("cluster_enabled:1")
      ? new SluiceError(
          "REDIS_CLUSTER",
          `Redis at ${redis.server} runs in cluster mode, which the redis-sortedset transport does not support: use a server without it (a replica with Sentinel or a managed failover is fine)`,
        )
      : undefined;
    if (this.#refusal !== undefined && before === undefined) this.#deps.log.error({}, this.#refusal.message);
    // Whatever was announced while nobody listened.
    for (const queue of this.#settings.queues)
      this.#arm(redis, queue).then(
        (waiting) => {
          if (waiting > 0) this.#announce(queue);
        },
        (error) => this.#deps.log.debug({ queue: queue.name, problem: messageOf(error) }, "the queue cannot be read"),
      );
  }

  /** In a later turn of the event loop: whoever is just being told what there is must not overwrite the news. */
  #announce(queue: QueueSettings | undefined): void {
    if (queue === undefined || this.#changed.has(queue)) return;
    this.#changed.add(queue);
    this.#deps.clock.soon(() => {
      this.#changed.delete(queue);
      this.#events?.available(queue);
    });
  }

  /**
   * Has the next change of the queue announced; together with the command before it that is one round trip.
   * @returns entries in the queue now
   */
  async #arm(redis: Redis, queue: QueueSettings): Promise<number> {
    const marked = redis.announces ? redis.send(["CLIENT", "CACHING", "YES"]) : undefined;
    const [waiting] = await Promise.all([redis.send(["ZCARD", queue.name]), marked]);
    return waiting as number;
  }

  /** @param touched queues that it adds to: the server forgets about announcing what we change ourselves */
  async #run(
    redis: Redis,
    batch: SettleBatch,
    touched: Iterable<QueueSettings> = [],
  ): Promise<readonly (number | string)[]> {
    const script = redis.run(SETTLE, batch.keys, batch.args);
    if (redis.announces) for (const queue of touched) this.#arm(redis, queue).catch(() => undefined);
    return (await script) as readonly (number | string)[];
  }

  /** Failing, it leaves the claims to their leases: whoever reclaims them comes to the same end. */
  async #setAside(redis: Redis, queue: QueueSettings, { aside, reasons }: Taken): Promise<void> {
    try {
      await this.#run(redis, aside, [queue]);
    } catch (error) {
      this.#deps.log.warn({ queue: queue.name, problem: messageOf(error) }, "unreadable entries stay claimed for now");
      return;
    }
    for (const reason of reasons) this.#events?.deadLettered(queue, reason);
  }

  /** Asks for the marks that the script has not; none when the server cannot be asked: workers ask again before they send. */
  async #marked({ claims, unasked }: Taken): Promise<readonly Claim[]> {
    if (unasked.length === 0) return claims;
    const marks = await this.cancelled(unasked).catch(() => []);
    const marked = new Set(unasked.filter((_, i) => marks[i] === true));
    return claims.map((claim) => (marked.has(claim) ? { ...claim, cancelled: true } : claim));
  }

  #outcome({ id, lost }: Claim, answer: number | string): SettleOutcome {
    switch (answer) {
      case SETTLED:
        this.#lost.takeSettled(id);
        return "settled";
      case DEAD_LETTERED:
        this.#lost.takeSettled(id);
        return "dead-lettered";
      case FENCED:
        // Gone, because the first attempt did it: only its answer was lost.
        return this.#lost.takeSettled(id) && !lost ? "settled" : "fenced";
      default:
        return { failed: String(answer) };
    }
  }
}

const tokenOf = ({ message }: Claim): string => message.routing.requestToken;
const hasToken = (claim: Claim): boolean => tokenOf(claim) !== "";

/** Cancel marks by request id. */
async function readMarks(redis: Redis, ids: readonly string[]): Promise<ReadonlyMap<string, unknown>> {
  if (ids.length === 0) return new Map();
  const marks = await redis.send(["MGET", ...ids.map((id) => CANCEL_PREFIX + id)]);
  return new Map(ids.map((id, i) => [id, (marks as readonly unknown[])[i]]));
}

function refusedQueues(settlements: readonly Settlement[]): Set<QueueSettings> {
  const queues = new Set<QueueSettings>();
  for (const { kind, claim } of settlements) if (kind === "refuse") queues.add(claim.queue);
  return queues;
}
