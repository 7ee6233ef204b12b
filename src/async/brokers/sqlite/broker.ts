import { messageOf } from "../../../base/inference/errors.ts";
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
import { readEntry } from "../intake.ts";
import type { Message } from "../messages/message.ts";
import { UnreadableMessage } from "../messages/request.ts";
import type { QueueSettings, SqliteSettings } from "../settings.ts";
import { jumpMessage, jumpOf, StoreClock } from "../store-clock.ts";
import { breathe, isBusy, QueueFile, type SqliteDeps } from "./queue-file.ts";
import { Recovery, type Restored } from "./recovery.ts";
import { changesOf, deliveryId, type MessageRow } from "./rows.ts";
import { Settlements } from "./settlements.ts";
import { type DeliveryKey, QueueTables } from "./tables.ts";
import { requestSignal, resultSignal, type WakeupSignal } from "./wakeup-signal.ts";

/** Most rows that one transaction changes: some milliseconds, in which this process does nothing else. */
const BATCH = 512;
/** How often a claim goes on after unreadable entries. */
const ROUNDS = 4;

/**
 * A broker on a SQLite file: durable, nothing to install, for any number of processes of one machine.
 * @throws SluiceError QUEUE_FILE_FOREIGN, QUEUE_FILE_NEWER, QUEUE_FILE_CORRUPT when the file must not be used
 */
export function sqliteBroker(settings: SqliteSettings, deps: SqliteDeps): Broker {
  return new SqliteBroker(settings, deps);
}

class SqliteBroker implements Broker {
  readonly #settings: SqliteSettings;
  readonly #deps: SqliteDeps;
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #recovery: Recovery;
  readonly #settlements: Settlements;
  readonly #requestSignal: WakeupSignal;
  readonly #resultSignal: WakeupSignal;
  /** The machine's wall clock, which ends the leases in the file. */
  readonly #storeClock: StoreClock;
  #events: BrokerEvents | undefined;
  #announcing = false;

  constructor(settings: SqliteSettings, deps: SqliteDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#file = new QueueFile(settings.path, deps);
    this.#tables = new QueueTables(this.#file);
    this.#recovery = new Recovery(this.#file, this.#tables);
    const { resultQueueName, leases } = settings;
    const { claimTtl } = leases;
    this.#settlements = new Settlements(this.#file, this.#tables, this.#recovery, deps.clock, {
      resultQueueName,
      claimTtl,
    });
    this.#storeClock = new StoreClock(deps.clock, claimTtl);
    this.#storeClock.heard(deps.clock.wall(), deps.clock.now());
    this.#requestSignal = requestSignal(settings.path, deps);
    this.#resultSignal = resultSignal(settings.path, deps);
  }

  start(events: BrokerEvents): void {
    this.#events = events;
    this.#requestSignal.listen(() => this.#announce());
  }

  async claim(queue: QueueSettings, { max, expired }: ClaimRequest): Promise<ClaimResult> {
    const time = this.#deps.clock.wall();
    const claimed: [MessageRow, Claim][] = [];
    let live = Math.min(max, BATCH);
    let late = Math.min(expired, BATCH);
    let round = 0;
    for (let more = true; more; ) {
      const unreadable: [MessageRow, UnreadableMessage][] = [];
      for (const row of await this.#take(queue, live, late, time, claimed.length > 0)) {
        const message = this.#read(queue, row);
        if (message instanceof UnreadableMessage) {
          unreadable.push([row, message]);
          continue;
        }
        if (row.score < time / 1000) late--;
        else live--;
        claimed.push([row, this.#claim(queue, row, message)]);
      }
      if (unreadable.length > 0) await this.#bury(queue, unreadable);
      more = unreadable.length > 0 && ++round < ROUNDS;
    }
    if (round > 0) claimed.sort(([a], [b]) => a.score - b.score || a.seq - b.seq);
    // There were so many that the rest must wait: an announcement causes the next claim.
    if (round === ROUNDS) this.#announce();
    return { claims: claimed.map(([, claim]) => claim), waiting: this.#waiting(queue), time };
  }

  async settle(settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]> {
    const outcomes: SettleOutcome[] = [];
    for (let at = 0; at < settlements.length; at += BATCH) {
      if (at > 0) await breathe(this.#deps.clock);
      try {
        const some = settlements.slice(at, at + BATCH);
        const repeated = (): void => this.#events?.writeRetried();
        outcomes.push(...(await this.#settlements.settle(some, repeated, (claims) => this.#tellForgotten(claims))));
      } catch (error) {
        // The answer about earlier writes must not be lost.
        if (at === 0) throw error;
        const failed = messageOf(error);
        while (outcomes.length < settlements.length) outcomes.push({ failed });
        break;
      }
    }
    if (settlements.length > 0) this.#resultSignal.send();
    return outcomes;
  }

  async renew(claims: readonly Claim[]): Promise<readonly Claim[]> {
    const { claimTtl } = this.#settings.leases;
    for (let at = 0; at < claims.length; at += BATCH) {
      if (at > 0) await breathe(this.#deps.clock);
      const some = claims.slice(at, at + BATCH);
      const now = this.#deps.clock.wall();
      const [kept, restored] = await this.#file.write(() => {
        const back = new Map<Claim, DeliveryKey>();
        return [some.map((claim) => this.#renew(claim, now, claimTtl, back)), back] as const;
      }, "later");
      this.#recovery.keep(restored);
      this.#tellForgotten(restored);
      for (const [index, claim] of some.entries()) if (!kept[index]) claim.lost = true;
    }
    return claims.filter(({ lost }) => lost);
  }

  async cancelled(claims: readonly Claim[]): Promise<readonly boolean[]> {
    return this.#file.read(() =>
      claims.map((claim) => {
        const delivery = this.#recovery.find(claim);
        return delivery !== undefined && this.#tables.isCancelled(delivery);
      }),
    );
  }

  async moveDue(): Promise<number> {
    this.#requestSignal.renew();
    let next = Number.POSITIVE_INFINITY;
    for (const queue of this.#settings.queues) {
      let moved = 0;
      let due = this.#nextDue(queue);
      for (let now = this.#deps.clock.wall(); due <= now; due = this.#nextDue(queue)) {
        if (moved > 0) await breathe(this.#deps.clock);
        moved += await this.#file.write(
          () => this.#tables.moveDue(this.#tables.queue(queue.name), now, BATCH),
          "later",
        );
        now = this.#deps.clock.wall();
      }
      if (moved > 0) this.#events?.available(queue);
      next = Math.min(next, due);
    }
    return Math.max(0, Math.min(next - this.#deps.clock.wall(), this.#settings.pollInterval));
  }

  /** No answer gets lost with claims on a file, so the claims that this process holds make no difference. */
  async reclaim(): Promise<void> {
    this.#file.follow();
    const { clock, log } = this.#deps;
    const [time, at] = [clock.wall(), clock.now()];
    const jump = jumpOf(time, this.#storeClock.expected);
    if (jump !== 0) log.warn({ path: this.#settings.path }, jumpMessage(jump));
    for (const queue of this.#settings.queues) {
      let count = 0;
      for (let looked = BATCH; looked === BATCH; ) {
        if (count > 0) await breathe(this.#deps.clock);
        const [found, again] = await this.#reclaim(queue);
        looked = found;
        count += again;
      }
      if (count === 0) continue;
      this.#events?.reclaimed(queue, count);
      this.#events?.available(queue);
    }
    // Only now: until then, some queues do not know of a jump of the clock.
    this.#storeClock.heard(time, at);
  }

  async check(): Promise<void> {
    this.#file.follow();
    try {
      // Only a write shows a full disk or a read-only file.
      await this.#file.write(() => this.#tables.touch(), "later");
    } catch (error) {
      // A process that writes much is working: this process gets its turn.
      if (!isBusy(error)) throw error;
    }
  }

  async backlog({ name }: QueueSettings): Promise<QueueBacklog> {
    return this.#file.read(() => this.#tables.backlog(name));
  }

  async close(): Promise<void> {
    this.#requestSignal.close();
    // Other processes find the returned messages at once.
    if (this.#events !== undefined) this.#requestSignal.send();
    this.#file.close();
  }

  /**
   * Claims rows, expired ones first; writes nothing when there is nothing to claim.
   * @param more true: some rows were claimed before; an error now leaves it at those
   */
  async #take(
    { name }: QueueSettings,
    live: number,
    late: number,
    time: number,
    more: boolean,
  ): Promise<readonly MessageRow[]> {
    const { claimTtl } = this.#settings.leases;
    const now = time / 1000;
    const until = time + claimTtl;
    try {
      const queue = this.#file.read(() => this.#tables.queue(name));
      const first = this.#file.read(() => this.#tables.firstScore(queue));
      const anyLate = late > 0 && first < now;
      if (!anyLate && (live <= 0 || Number.isNaN(first))) return [];
      return await this.#file.write(
        () => [
          ...(anyLate ? this.#tables.claim(queue, Number.NEGATIVE_INFINITY, now, late, until, claimTtl) : []),
          ...(live > 0 ? this.#tables.claim(queue, now, Number.POSITIVE_INFINITY, live, until, claimTtl) : []),
        ],
        "later",
      );
    } catch (error) {
      if (more) return [];
      throw error;
    }
  }

  #read(queue: QueueSettings, row: MessageRow): Message | UnreadableMessage {
    try {
      return readEntry(row.body, queue, changesOf(row));
    } catch (error) {
      return error instanceof UnreadableMessage ? error : new UnreadableMessage(messageOf(error));
    }
  }

  #claim(queue: QueueSettings, row: MessageRow, message: Message): Claim {
    const { cancelled, published } = row;
    const id = deliveryId(this.#file.id, row);
    return { id, queue, message, cancelled: cancelled === 1, publishedAt: published, lost: false };
  }

  async #bury(queue: QueueSettings, unreadable: readonly (readonly [MessageRow, UnreadableMessage])[]): Promise<void> {
    try {
      await this.#file.write(() => {
        for (const [row, error] of unreadable) this.#settlements.buryUnreadable(queue, row, error);
      });
    } catch (error) {
      // They are claimed like the others, and come again when their leases have run out.
      this.#deps.log.warn(
        { queue: queue.name, error: messageOf(error) },
        "unreadable entries stay claimed until their leases end",
      );
      return;
    }
    for (const [, { message }] of unreadable) this.#events?.deadLettered(queue, message);
    this.#resultSignal.send();
  }

  /** NaN when the count cannot be read now. */
  #waiting({ name }: QueueSettings): number {
    try {
      return this.#file.read(() => this.#tables.counts(this.#tables.queue(name)).waiting);
    } catch {
      return Number.NaN;
    }
  }

  /** @param restored notes a claim that the file had lost @returns false: another process has it, or it is settled */
  #renew(claim: Claim, now: number, ttl: number, restored: Map<Claim, DeliveryKey>): boolean {
    const delivery = this.#recovery.find(claim);
    if (delivery !== undefined && this.#tables.renew(delivery, now + ttl, ttl)) return true;
    const put = this.#recovery.restore(claim, now, ttl);
    if (put === undefined) return false;
    restored.set(claim, put);
    return true;
  }

  #tellForgotten(restored: Restored): void {
    const counts = new Map<QueueSettings, number>();
    for (const { queue } of restored.keys()) counts.set(queue, (counts.get(queue) ?? 0) + 1);
    for (const [queue, count] of counts) this.#events?.forgotten(queue, count);
  }

  #nextDue({ name }: QueueSettings): number {
    return this.#file.read(() => this.#tables.nextDue(this.#tables.queue(name)));
  }

  /** @returns the number of leases that had run out, at most a batch, and the number of messages queued again */
  async #reclaim(queue: QueueSettings): Promise<readonly [number, number]> {
    const now = this.#deps.clock.wall();
    const { maxAttempts } = this.#settings.leases;
    const number = this.#file.read(() => this.#tables.queue(queue.name));
    if (jumpOf(now, this.#storeClock.expected) !== 0) {
      await this.#file.write(() => this.#tables.beginLeases(number, now), "later");
      return [0, 0];
    }
    const nothing = this.#file.read(
      () => this.#tables.runOut(number, now, 1).length === 0 && !this.#tables.endsAhead(number, now),
    );
    if (nothing) return [0, 0];
    const reasons: string[] = [];
    const [found, again] = await this.#file.write(() => {
      this.#tables.shortenAhead(number, now);
      const ended = this.#tables.runOut(number, now, BATCH);
      let count = 0;
      for (const delivery of ended) {
        const lost = delivery.lost + 1;
        if (maxAttempts === 0 || lost < maxAttempts) {
          if (this.#tables.lose(delivery)) count++;
          continue;
        }
        const reason = this.#settlements.giveUp(queue, delivery, lost);
        if (reason !== undefined) reasons.push(reason);
      }
      return [ended.length, count] as const;
    });
    for (const reason of reasons) this.#events?.deadLettered(queue, reason);
    if (reasons.length > 0) this.#resultSignal.send();
    return [found, again];
  }

  /** Announces queues that hold messages; several rings at once are one. */
  #announce(): void {
    if (this.#announcing) return;
    this.#announcing = true;
    this.#deps.clock.soon(() => {
      this.#announcing = false;
      for (const queue of this.#settings.queues) if (this.#waiting(queue) !== 0) this.#events?.available(queue);
    });
  }
}
