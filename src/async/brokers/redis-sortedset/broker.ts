import { randomBytes } from "node:crypto";
import type { Clock } from "../../../base/clock/clock.ts";
import type { Random } from "../../../base/clock/random.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import type { Tracing } from "../../../base/telemetry/tracing.ts";
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
import type { QueueSettings, RedisSortedSetSettings } from "../settings.ts";
import { jumpMessage, StoreClock } from "../store-clock.ts";
import { CLAIM } from "./claim-script.ts";
import { BACKLOG } from "./inspect-scripts.ts";
import { checkKeys, readBacklog } from "./inspector.ts";
import { ANSWERED_PREFIX, CANCEL_PREFIX, claimsKey, leasesKey, ownersKey } from "./keys.ts";
import { REINSTATE, RENEW, RUN_OUT } from "./lease-scripts.ts";
import { LostAnswers } from "./lost-answers.ts";
import { type Reinstated, reinstate } from "./reinstate.ts";
import { moveDue, reclaimRunOut } from "./requeue.ts";
import { DUE, MOVE } from "./retry-scripts.ts";
import { SettleBatch } from "./settle-batch.ts";
import { ANSWERED, DEAD_LETTERED, FENCED, FORGOTTEN, SETTLE, SETTLED } from "./settle-script.ts";
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

/** How often a claim is tried again with a new owner in a store that keeps losing data. */
const OWNERS_PER_CLAIM = 3;

const SCRIPTS = [CLAIM, SETTLE, RENEW, REINSTATE, RUN_OUT, DUE, MOVE, BACKLOG];

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
  /**
   * In front of every claim id: no two processes share it, so no id is ever used twice. Another one follows when the store has
   * lost data: the numbers of this one then say nothing about it any more.
   */
  #owner = newOwner();
  /** By queue: number of the last claim of this owner that was answered. */
  #made = new Map<QueueSettings, number>();
  /** While leases are renewed because the store may have lost some: nothing is claimed, it might be in hand already. */
  #doubt: Promise<void> | undefined;
  readonly #lost = new LostAnswers();
  readonly #storeClock: StoreClock;
  #redis: Redis | undefined;
  #events: BrokerEvents | undefined;
  #nextClaim = 1;
  /** Why this server cannot be used at all. */
  #refusal: SluiceError | undefined;
  readonly #changed = new Set<QueueSettings>();

  constructor(settings: RedisSortedSetSettings, deps: SortedSetDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#storeClock = new StoreClock(deps.clock, settings.leases.claimTtl);
    this.#byName = new Map(settings.queues.map((queue) => [queue.name, queue]));
  }

  start(events: BrokerEvents): void {
    this.#events = events;
    this.#redis = connectRedis(this.#settings.redis, this.#deps, {
      scripts: SCRIPTS,
      writes: true,
      onReady: () => void this.#connected(),
      onChanged: (key) => {
        if (key === undefined) for (const queue of this.#settings.queues) this.#announce(queue);
        else this.#announce(this.#byName.get(key));
      },
    });
  }

  async claim(queue: QueueSettings, request: ClaimRequest): Promise<ClaimResult> {
    for (let owners = 0; owners < OWNERS_PER_CLAIM; owners++) {
      if (this.#doubt !== undefined) await this.#doubt;
      const owner = this.#owner;
      const result = await this.#claim(this.#usable(), queue, request);
      if (result !== undefined) return result;
      if (this.#owner === owner) {
        this.#owner = newOwner();
        this.#made = new Map();
      }
      this.#doubtLeases();
    }
    throw new SluiceError("BROKER_UNAVAILABLE", "the store loses data again and again: nothing is claimed for now");
  }

  /** Undefined: nothing was claimed, because the store does not know the last claim of this owner. */
  async #claim(redis: Redis, queue: QueueSettings, { max, expired }: ClaimRequest): Promise<ClaimResult | undefined> {
    const owner = this.#owner;
    const live = Math.min(max, MOST_CLAIMED);
    const late = Math.min(expired, MOST_CLAIMED);
    const first = this.#nextClaim;
    this.#nextClaim += live + late;
    const at = this.#deps.clock.now();
    const script = redis.run(
      CLAIM,
      [queue.name, claimsKey(queue.name), leasesKey(queue.name), ownersKey(queue.name)],
      [
        ...[String(live), String(late), owner, String(first), String(this.#settings.leases.claimTtl)],
        ...[CANCEL_PREFIX, String(MOST_BYTES), String(this.#made.get(queue) ?? 0)],
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
      const claimIds = Array.from({ length: live + late }, (_, i) => owner + (first + i));
      const until = this.#deps.clock.now() + this.#settings.leases.claimTtl;
      this.#lost.claimed({ queue, claimIds, until });
      throw error;
    }
    if ((answer[0] as number) < 0) return undefined;
    this.#storeClock.heardFirst(answer[0] as number, at);
    const made = (answer.length - 1) / 2;
    if (made > 0 && owner === this.#owner)
      this.#made.set(queue, Math.max(first + made - 1, this.#made.get(queue) ?? 0));
    const taken = takeIn({ queue, settings: this.#settings, owner, first, live }, answer);
    const claims = await this.#marked(redis, queue, taken);
    if (taken.aside.size > 0) await this.#setAside(redis, queue, taken);
    return { claims, waiting, time: answer[0] as number };
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
        if (answer.includes(FORGOTTEN)) answer = await this.#settleForgotten(redis, part, answer);
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
        keys.push(leasesKey(queue.name), ownersKey(queue.name));
        numbers.set(queue.name, number);
      }
      args.push(number, id);
    }
    const [taken, ...missing] = (await redis.run(RENEW, keys, args)) as [number, ...number[]];
    const lost = missing.slice(0, taken).map((at) => claims[at]!);
    const forgotten = missing.slice(taken).map((at) => claims[at]!);
    if (forgotten.length > 0) {
      const outcomes = await this.#reinstate(redis, forgotten);
      lost.push(...forgotten.filter((_, i) => outcomes[i] === "taken" || outcomes[i] === "answered"));
      const failed = outcomes.find((outcome) => typeof outcome === "object");
      if (failed !== undefined)
        throw new SluiceError(
          "BROKER_UNAVAILABLE",
          `leases that the store has lost cannot be made again: ${failed.failed}`,
        );
    }
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
    const at = this.#deps.clock.now();
    let first: number | undefined;
    for (const queue of this.#settings.queues) {
      const { requeued, buried, time, jump } = await reclaimRunOut(redis, queue, this.#settings, this.#storeClock);
      if (first === undefined && jump !== 0) this.#deps.log.warn({ server: redis.server }, jumpMessage(jump));
      first ??= time;
      for (const reason of buried) this.#events?.deadLettered(queue, reason);
      if (requeued === 0) continue;
      this.#events?.reclaimed(queue, requeued);
      this.#announce(queue);
    }
    // Only now: of a jump meanwhile some queues do not know.
    if (first !== undefined) this.#storeClock.heard(first, at);
  }

  async check(): Promise<void> {
    await checkKeys(this.#usable(), this.#settings);
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

  /** Has everything renewed that is held, and with it put back what the store has lost, before more is claimed. */
  #doubtLeases(): void {
    if (this.#doubt !== undefined || this.#events === undefined) return;
    const doubt = this.#events.doubted().finally(() => {
      this.#doubt = undefined;
    });
    this.#doubt = doubt;
  }

  async #reinstate(redis: Redis, claims: readonly Claim[]): Promise<readonly Reinstated[]> {
    const outcomes = await reinstate(redis, claims, this.#settings);
    const counts = new Map<QueueSettings, number>();
    for (const [i, { queue }] of claims.entries())
      if (outcomes[i] === "reinstated") counts.set(queue, (counts.get(queue) ?? 0) + 1);
    for (const [queue, count] of counts) this.#events?.forgotten(queue, count);
    return outcomes;
  }

  /** Puts the claims back that the store has lost, and settles them then. @returns the answers with theirs in their places */
  async #settleForgotten(
    redis: Redis,
    part: readonly Settlement[],
    before: readonly (number | string)[],
  ): Promise<readonly (number | string)[]> {
    this.#doubtLeases();
    const answers = [...before];
    const places = [...before.keys()].filter((i) => before[i] === FORGOTTEN);
    const outcomes = await this.#reinstate(
      redis,
      places.map((i) => part[i]!.claim),
    );
    const batch = new SettleBatch(this.#settings);
    const again: number[] = [];
    for (const [n, i] of places.entries()) {
      const outcome = outcomes[n]!;
      if (outcome === "reinstated") {
        again.push(i);
        batch.add(part[i]!);
      } else answers[i] = typeof outcome === "object" ? outcome.failed : outcome === "taken" ? FENCED : ANSWERED;
    }
    if (again.length === 0) return answers;
    const settled = await this.#run(redis, batch, refusedQueues(again.map((i) => part[i]!)));
    // Lost once more meanwhile: the writer tries again.
    for (const [n, i] of again.entries()) answers[i] = settled[n] === FORGOTTEN ? "the store loses data" : settled[n]!;
    return answers;
  }

  async #connected(): Promise<void> {
    const redis = this.#redis!;
    // Whoever answers now may be another server, or the same one with less in it.
    this.#doubtLeases();
    // An answer that is refused says nothing about the server's kind.
    const [about, memory] = await Promise.all(
      ["cluster", "memory"].map((section) => redis.send(["INFO", section]).catch(() => "")),
    );
    const before = this.#refusal;
    this.#refusal = String(about).includes("cluster_enabled:1")
      ? new SluiceError(
          "REDIS_CLUSTER",
          `Redis at ${redis.server} runs in cluster mode, which the redis-sortedset transport does not support: use a server without it (a replica with Sentinel or a managed failover is fine)`,
        )
      : undefined;
    if (this.#refusal !== undefined && before === undefined) this.#deps.log.error({}, this.#refusal.message);
    const policy = /^maxmemory_policy:(\S+)/m.exec(String(memory))?.[1];
    if (policy !== undefined && policy !== "noeviction" && !/^maxmemory:0\r?$/m.test(String(memory)))
      this.#deps.log.warn(
        { server: redis.server, policy },
        "Redis may evict queues and results when its memory is full: set maxmemory-policy noeviction",
      );
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
  async #setAside(redis: Redis, queue: QueueSettings, { aside, reasons, answered }: Taken): Promise<void> {
    if (answered > 0)
      this.#deps.log.info(
        { queue: queue.name, count: answered },
        "messages that a store without their answers had kept are dropped: they have been answered",
      );
    try {
      await this.#run(redis, aside, [queue]);
    } catch (error) {
      this.#deps.log.warn({ queue: queue.name, problem: messageOf(error) }, "unreadable entries stay claimed for now");
      return;
    }
    for (const reason of reasons) this.#events?.deadLettered(queue, reason);
  }

  /** Asks for the marks that the script has not; none when the server cannot be asked: workers ask again before they send. */
  async #marked(redis: Redis, queue: QueueSettings, taken: Taken): Promise<readonly Claim[]> {
    const { claims, unasked, aside } = taken;
    if (unasked.length === 0) return claims;
    const ids = unasked.map(({ message }) => message.request.id);
    const marks = await readMarks(redis, ids).catch(() => new Map<string, unknown>());
    const asked = new Set(unasked);
    const left: Claim[] = [];
    for (const claim of claims) {
      const mark = asked.has(claim) ? marks.get(claim.message.request.id) : undefined;
      if (mark === ANSWERED_PREFIX + tokenOf(claim)) {
        aside.drop(queue, claim.id);
        taken.answered++;
      } else left.push(mark === tokenOf(claim) ? { ...claim, cancelled: true } : claim);
    }
    return left;
  }

  #outcome({ id, lost, recovered }: Claim, answer: number | string): SettleOutcome {
    switch (answer) {
      case SETTLED:
        this.#lost.takeSettled(id);
        return recovered === true ? "recovered" : "settled";
      case DEAD_LETTERED:
        this.#lost.takeSettled(id);
        return "dead-lettered";
      case ANSWERED:
        this.#lost.takeSettled(id);
        return "answered";
      case FENCED:
        // Gone, because the first attempt did it: only its answer was lost.
        if (!this.#lost.takeSettled(id) || lost) return "fenced";
        return recovered === true ? "recovered" : "settled";
      default:
        return { failed: String(answer) };
    }
  }
}

const newOwner = (): string => `${randomBytes(12).toString("base64url")}:`;

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
