import type {
  Broker,
  BrokerEvents,
  Claim,
  ClaimRequest,
  ClaimResult,
  QueueBacklog,
  Settlement,
  SettleOutcome,
} from "../../../../src/async/brokers/broker.ts";
import { givenUp, readEntry, resultRoute, unreadableResult } from "../../../../src/async/brokers/intake.ts";
import { encodeEnvelope } from "../../../../src/async/brokers/messages/envelope.ts";
import type { Message, ResultMessage } from "../../../../src/async/brokers/messages/message.ts";
import { UnreadableMessage } from "../../../../src/async/brokers/messages/request.ts";
import { encodeResult } from "../../../../src/async/brokers/messages/result.ts";
import type { LeaseSettings, QueueSettings } from "../../../../src/async/brokers/settings.ts";
import type { MemoryEntry } from "./entry-list.ts";
import type { MemoryLease, MemoryStore } from "./store.ts";

export interface MemorySettings {
  readonly queues: readonly QueueSettings[];
  /** Where results go that neither the queue nor the message routes. */
  readonly resultQueueName: string;
  readonly leases: LeaseSettings;
  /** Milliseconds, the longest that `moveDue` may answer; default 1000. */
  readonly pollInterval?: number;
}

/** A broker whose server is a `MemoryStore`: for tests, and for simulations in virtual time. */
export class MemoryBroker implements Broker {
  readonly #settings: MemorySettings;
  readonly #store: MemoryStore;
  #events: BrokerEvents | undefined;
  #unsubscribe: (() => void) | undefined;

  constructor(settings: MemorySettings, store: MemoryStore) {
    this.#settings = settings;
    this.#store = store;
  }

  start(events: BrokerEvents): void {
    this.#events = events;
    this.#unsubscribe = this.#store.onRequests((queueName) => {
      const queue = this.#settings.queues.find(({ name }) => name === queueName);
      if (queue !== undefined) events.available(queue);
    });
  }

  claim(queue: QueueSettings, request: ClaimRequest): Promise<ClaimResult> {
    return this.#store.call(
      () => this.#claim(queue, request),
      ({ claims }) => {
        for (const { id } of claims) this.#store.leases.get(id)!.unanswered = true;
      },
    );
  }

  settle(settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]> {
    return this.#store.call(() => settlements.map((settlement) => this.#settle(settlement)));
  }

  renew(claims: readonly Claim[]): Promise<readonly Claim[]> {
    return this.#store.call(() => {
      const until = this.#leaseEnd();
      return claims.filter((claim) => {
        const lease = this.#store.leases.get(claim.id) ?? this.#reinstated(claim);
        if (lease === undefined) claim.lost = true;
        else lease.until = until;
        return lease === undefined;
      });
    });
  }

  cancelled(claims: readonly Claim[]): Promise<readonly boolean[]> {
    return this.#store.call(() => claims.map(({ id }) => this.#store.leases.get(id)?.entry.cancelled ?? false));
  }

  moveDue(): Promise<number> {
    return this.#store.call(() => {
      const { clock, parked } = this.#store;
      const now = clock.wall();
      const due = parked.take((entry) => (entry.due * 1000 <= now ? "take" : "stop"));
      for (const entry of due) this.#requeue(entry, entry.deadline);
      for (const queueName of new Set(due.map((entry) => entry.queueName))) this.#store.announce(queueName);
      const next = parked.first === undefined ? Number.POSITIVE_INFINITY : parked.first * 1000 - now;
      return Math.min(next, this.#settings.pollInterval ?? 1000);
    });
  }

  reclaim(held: ReadonlySet<string>): Promise<void> {
    return this.#store.call(() => {
      const now = this.#store.clock.now();
      for (const queue of this.#settings.queues) {
        let count = 0;
        let queued = false;
        for (const [id, lease] of this.#store.leases) {
          if (lease.entry.queueName !== queue.name) continue;
          // An answer that was lost is no lost processor: nobody has begun with the message.
          const leftover = lease.unanswered && lease.owner === this && !held.has(id);
          if (!leftover && lease.until > now) continue;
          this.#store.leases.delete(id);
          if (leftover) this.#requeue(lease.entry, lease.entry.score);
          else if (this.#lostLease(queue, lease)) count++;
          queued = true;
        }
        if (count > 0) this.#events?.reclaimed(queue, count);
        if (queued) this.#store.announce(queue.name);
      }
    });
  }

  check(): Promise<void> {
    return this.#store.call(() => {});
  }

  backlog(queue: QueueSettings): Promise<QueueBacklog> {
    return this.#store.call(() => {
      const waiting = this.#store.queue(queue.name);
      const [first] = waiting.peek(1);
      const { leases, parked } = this.#store;
      return {
        waiting: waiting.size,
        claimed: [...leases.values()].filter(({ entry }) => entry.queueName === queue.name).length,
        retries: parked.peek(parked.size).filter(({ queueName }) => queueName === queue.name).length,
        dead: this.#store.dead(queue.name).length,
        nextDeadline: waiting.first ?? Number.NaN,
        ...(first === undefined ? {} : { nextCreated: Math.floor(first.publishedAt / 1000) }),
      };
    });
  }

  async close(): Promise<void> {
    this.#unsubscribe?.();
  }

  #claim(queue: QueueSettings, { max, expired }: ClaimRequest): ClaimResult {
    const time = this.#store.clock.wall();
    const now = time / 1000;
    const entries = this.#store.queue(queue.name);
    let live = max;
    let late = expired;
    const taken = entries.take((entry) => {
      if (live <= 0 && (late <= 0 || entry.score >= now)) return "stop";
      if (Number.isNaN(entry.deadline)) return "take";
      if (entry.deadline < now) return late-- > 0 ? "take" : "pass";
      return live-- > 0 ? "take" : "pass";
    });
    const claims = taken.flatMap((entry) => this.#lease(queue, entry));
    return { claims, waiting: entries.size, time };
  }

  #lease(queue: QueueSettings, entry: MemoryEntry): Claim[] {
    let message: Message;
    try {
      message = readEntry(entry.text, queue);
    } catch (error) {
      if (!(error instanceof UnreadableMessage)) throw error;
      this.#bury(queue, entry, error.message, error.resultQueueName, unreadableResult(error));
      this.#events?.deadLettered(queue, error.message);
      return [];
    }
    const id = `${this.#store.epoch}:${entry.order}:${++entry.deliveries}`;
    this.#store.leases.set(id, { entry, owner: this, until: this.#leaseEnd(), unanswered: false });
    const { cancelled, publishedAt } = entry;
    return [{ id, queue, message, cancelled, publishedAt, lost: false }];
  }

  /** The lease of a claim that was made before the store lost everything, made again; undefined for every other claim. */
  #reinstated(claim: Claim): MemoryLease | undefined {
    const { id, queue, message } = claim;
    if (id.startsWith(`${this.#store.epoch}:`) || this.#store.reinstated.has(id)) return undefined;
    const entry = this.#store.make(queue.name, encodeEnvelope(message), message.request.deadline);
    const lease = { entry, owner: this, until: this.#leaseEnd(), unanswered: false };
    this.#store.leases.set(id, lease);
    this.#store.reinstated.add(id);
    claim.recovered = true;
    this.#events?.forgotten(queue, 1);
    return lease;
  }

  #settle(settlement: Settlement): SettleOutcome {
    const { claim } = settlement;
    const lease = this.#store.leases.get(claim.id) ?? this.#reinstated(claim);
    if (lease === undefined) return "fenced";
    const outcome = this.#settleHeld(settlement, lease);
    return outcome === "settled" && claim.recovered === true ? "recovered" : outcome;
  }

  #settleHeld(settlement: Settlement, lease: MemoryLease): SettleOutcome {
    const { claim } = settlement;
    this.#store.leases.delete(claim.id);
    const { entry } = lease;
    const { message, queue } = claim;
    switch (settlement.kind) {
      case "result":
        this.#publish(
          queue,
          message.routing.resultQueueName,
          claim.recovered === true ? { ...settlement.result, recovered: true } : settlement.result,
        );
        this.#store.forget(entry);
        return "settled";
      case "dead":
        this.#bury(queue, entry, settlement.reason, message.routing.resultQueueName, settlement.result);
        return "settled";
      case "retry": {
        const { due, retryCount, labels } = settlement;
        entry.text = encodeEnvelope({ ...message, routing: { ...message.routing, retryCount, labels } });
        entry.due = due;
        this.#store.parked.add(entry, due);
        return "settled";
      }
      case "refuse":
        entry.text = encodeEnvelope({ ...message, routing: { ...message.routing, labels: settlement.labels } });
        this.#requeue(entry, entry.score);
        return "settled";
    }
  }

  /** @returns whether it is queued again */
  #lostLease(queue: QueueSettings, { entry }: MemoryLease): boolean {
    const message = readEntry(entry.text, queue);
    const lostLeases = message.routing.lostLeases + 1;
    const { maxAttempts } = this.#settings.leases;
    entry.text = encodeEnvelope({ ...message, routing: { ...message.routing, lostLeases } });
    if (maxAttempts > 0 && lostLeases >= maxAttempts) {
      const { reason, result } = givenUp(entry.id, lostLeases);
      this.#bury(queue, entry, reason, message.routing.resultQueueName, result);
      this.#events?.deadLettered(queue, reason);
      return false;
    }
    this.#requeue(entry, entry.score);
    return true;
  }

  #leaseEnd(): number {
    return this.#store.clock.now() + this.#settings.leases.claimTtl;
  }

  #requeue(entry: MemoryEntry, score: number): void {
    entry.score = score;
    this.#store.queue(entry.queueName).add(entry, score);
  }

  #bury(
    queue: QueueSettings,
    entry: MemoryEntry,
    reason: string,
    resultQueueName: string,
    result?: ResultMessage,
  ): void {
    this.#store.bury(queue.name, { entry: entry.text, reason, at: this.#store.clock.wall() });
    if (result !== undefined) this.#publish(queue, resultQueueName, result);
    this.#store.forget(entry);
  }

  #publish(queue: QueueSettings, named: string, result: ResultMessage): void {
    this.#store.pushResult(resultRoute(queue, named, this.#settings.resultQueueName), encodeResult(result));
  }
}
