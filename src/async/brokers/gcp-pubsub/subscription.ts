import { type Clock, delay, type Timer } from "../../../base/clock/clock.ts";
import type { Random } from "../../../base/clock/random.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../../base/telemetry/rate-limited-log.ts";
import type { BrokerEvents, Claim } from "../broker.ts";
import { unreadableResult } from "../intake.ts";
import { UnreadableMessage } from "../messages/request.ts";
import type { LeaseSettings, QueueSettings } from "../settings.ts";
import {
  type AckReport,
  type PubSubClient,
  publishResults,
  type Received,
  STATUS,
  type SubscriptionInfo,
  statusOf,
} from "./client.ts";
import { type LeasedMessage, type LeaseOutcome, LeaseTable, readLeasedMessage } from "./lease-table.ts";
import { Prefetch } from "./prefetch.ts";

/** The leases that the service accepts, seconds. */
const SHORTEST_LEASE = 10;
const LONGEST_LEASE = 600;

/**
 * Milliseconds until the leases of received messages get their configured length, and the number of attempts. The pause is long
 * enough for quick messages to end first, and shorter than the service's shortest lease.
 */
const FIRST_LEASE = { pause: 2000, attempts: 3 } as const;

/** Milliseconds between two log lines about the same kind of problem. */
const LOG_INTERVAL = 60_000;

export interface SubscriptionDeps {
  readonly client: Promise<PubSubClient>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly leases: LeaseSettings;
}

interface Unreadable {
  readonly ackId: string;
  readonly messageId: string;
  readonly error: UnreadableMessage;
}

/** One subscription: its messages, and the leases on them. */
export class Subscription {
  readonly queue: QueueSettings;
  readonly leases = new LeaseTable();
  readonly prefetch: Prefetch;
  readonly #deps: SubscriptionDeps;
  readonly #leaseSeconds: number;
  readonly #background = new Set<Promise<void>>();
  readonly #end = new AbortController();
  readonly #log: RateLimitedLog;
  #events: BrokerEvents | undefined;
  #heartbeat: Timer | undefined;
  #deliveries = 0;

  constructor(queue: QueueSettings, deps: SubscriptionDeps) {
    this.queue = queue;
    this.#deps = deps;
    this.#leaseSeconds = Math.min(LONGEST_LEASE, Math.max(SHORTEST_LEASE, Math.ceil(deps.leases.claimTtl / 1000)));
    this.#log = new RateLimitedLog(deps.log, deps.clock, { intervalMs: LOG_INTERVAL, maxKeys: 4 });
    this.prefetch = new Prefetch(queue, deps, {
      arrived: (received) => this.#arrived(received),
      available: () => this.#events?.available(queue),
    });
  }

  start(events: BrokerEvents): void {
    this.#events = events;
    this.#armHeartbeat();
    this.#inBackground(this.#advise());
  }

  /** @returns the outcome of each, in order */
  async acknowledge(deliveries: readonly LeasedMessage[]): Promise<readonly LeaseOutcome[]> {
    const { client, ids } = await this.#prepare(deliveries);
    const report = await client.acknowledge(this.queue.name, ids.flat());
    const late: string[] = [];
    const outcomes = deliveries.map((delivery, at) => {
      // Leases of a delivery that came while the call was under way.
      const newer = delivery.ackIds.filter((id) => !ids[at]!.includes(id));
      const outcome = this.#conclude(delivery, ids[at]!, report);
      if (outcome === "done") late.push(...newer);
      return outcome;
    });
    if (late.length > 0) this.#inBackground(client.acknowledge(this.queue.name, late));
    return outcomes;
  }

  /** Ends leases. @param seconds until the message is delivered again; 0 = the subscription's retry policy decides */
  async giveBack(deliveries: readonly LeasedMessage[], seconds: number): Promise<readonly LeaseOutcome[]> {
    const { client, ids } = await this.#prepare(deliveries);
    const report = await client.modifyAckDeadline(this.queue.name, ids.flat(), seconds);
    return deliveries.map((delivery, at) => this.#conclude(delivery, ids[at]!, report));
  }

  /**
   * Sets leases to their configured length, from now. Leases that are gone are marked as lost.
   * @returns why some could not be extended, or undefined
   */
  async extend(deliveries: readonly LeasedMessage[]): Promise<string | undefined> {
    const { client, ids } = await this.#prepare(deliveries);
    const report = await client.modifyAckDeadline(this.queue.name, ids.flat(), this.#leaseSeconds);
    let problem: string | undefined;
    deliveries.forEach((delivery, at) => {
      const outcome = this.leases.apply(delivery, ids[at]!, report);
      if (typeof outcome === "object") problem = outcome.failed;
    });
    return problem;
  }

  /** Gives back messages that were handed out and had no holder in two calls in a row. @returns how many */
  async release(held: ReadonlySet<string>): Promise<number> {
    const buffered = new Set(this.prefetch.buffered);
    const leftovers: LeasedMessage[] = [];
    for (const delivery of this.leases.all()) {
      const isHeld = held.has(delivery.claim.id) || buffered.has(delivery.claim) || delivery.settling !== "no";
      if (!isHeld && delivery.unheld) leftovers.push(delivery);
      delivery.unheld = !isHeld;
    }
    if (leftovers.length > 0) await this.giveBack(leftovers, 0);
    return leftovers.length;
  }

  /** For the readiness probe (async-processor 5.4). @throws SluiceError BROKER_UNAVAILABLE, PUBSUB_CLIENT_MISSING */
  async check(): Promise<void> {
    if (this.prefetch.health()) return;
    const client = await this.#deps.client;
    try {
      await client.lookUp(this.queue.name);
    } catch (error) {
      // Many subscribers may receive but not look up: a server that refuses can be reached.
      if (statusOf(error) === STATUS.PERMISSION_DENIED) return;
      const problem = `subscription ${this.queue.name} cannot be looked up: ${messageOf(error)}`;
      throw new SluiceError("BROKER_UNAVAILABLE", problem, { cause: error });
    }
  }

  /** Ends everything under way; all held messages go back to the service. */
  async close(): Promise<void> {
    this.#end.abort();
    this.#heartbeat?.cancel();
    await this.prefetch.close();
    await Promise.all(this.#background);
    await this.giveBack([...this.leases.all()], 0).catch(() => undefined);
  }

  async #prepare(deliveries: readonly LeasedMessage[]): Promise<{ client: PubSubClient; ids: readonly string[][] }> {
    return { client: await this.#deps.client, ids: deliveries.map(({ ackIds }) => [...ackIds]) };
  }

  #conclude(delivery: LeasedMessage, ids: readonly string[], report: AckReport): LeaseOutcome {
    const outcome = this.leases.apply(delivery, ids, report);
    if (outcome === "done") this.leases.remove(delivery);
    return outcome;
  }

  /** @returns the claims to hand out: neither unreadable messages nor messages that are held already */
  #arrived(received: readonly Received[]): readonly Claim[] {
    const fresh: Claim[] = [];
    const leased = new Set<LeasedMessage>();
    const unreadable: Unreadable[] = [];
    for (const entry of received) {
      try {
        const delivery = readLeasedMessage(this.queue, entry, `${this.queue.name}#${++this.#deliveries}`);
        const held = this.leases.admit(delivery);
        leased.add(held);
        if (held === delivery) fresh.push(delivery.claim);
      } catch (error) {
        if (!(error instanceof UnreadableMessage)) throw error;
        unreadable.push({ ackId: entry.ackId ?? "", messageId: entry.message?.messageId ?? "", error });
      }
    }
    if (leased.size > 0) this.#inBackground(this.#firstLease([...leased]));
    if (unreadable.length > 0) this.#inBackground(this.#discard(unreadable));
    return fresh;
  }

  /** The service's own lease may be as short as 10 s, which is less than the time between two renewals. */
  async #firstLease(arrived: readonly LeasedMessage[]): Promise<void> {
    for (let attempt = 1; attempt <= FIRST_LEASE.attempts; attempt++) {
      await delay(this.#deps.clock, FIRST_LEASE.pause, this.#end.signal);
      const left = arrived.filter((delivery) => delivery.settling !== "give-back" && this.leases.has(delivery));
      if (left.length === 0) return;
      const problem = await this.extend(left);
      if (problem === undefined) return;
      this.#log.log("warn", "lease", { queue: this.queue.name, error: problem }, "leases could not be extended");
    }
  }

  /**
   * Ends unreadable messages, with a result for those whose owner is known. Where that fails, nothing is acknowledged, and the
   * service delivers them again.
   */
  async #discard(unreadable: readonly Unreadable[]): Promise<void> {
    const client = await this.#deps.client;
    const known = unreadable.filter(({ error }) => error.id !== "");
    const problems = await publishResults(
      client,
      known.map(({ error }) => unreadableResult(error)!),
    );
    const failed = new Set(known.filter((_, at) => problems[at] !== undefined));
    const over = unreadable.filter((entry) => !failed.has(entry));
    const report = await client.acknowledge(
      this.queue.name,
      over.map(({ ackId }) => ackId),
    );
    for (const { ackId, messageId, error } of over) {
      if (report.failed.has(ackId)) continue;
      const fields = { queue: this.queue.name, messageId };
      this.#log.log("warn", "unreadable", fields, "an unreadable message was discarded");
      this.#events?.deadLettered(this.queue, error.message);
    }
  }

  /** Buffered messages belong to no claim that another part renews. */
  #armHeartbeat(): void {
    const interval = Math.min(30_000, Math.max(1000, this.#deps.leases.claimTtl / 3));
    this.#heartbeat = this.#deps.clock.after(
      interval,
      () => {
        const waiting = this.prefetch.buffered.map(({ id }) => this.leases.get(id));
        this.#inBackground(this.extend(waiting.filter((delivery) => delivery !== undefined)));
        this.#armHeartbeat();
      },
      true,
    );
  }

  /** Logs which settings of the subscription make the processor work worse than it could (async-processor 5.4). */
  async #advise(): Promise<void> {
    const client = await this.#deps.client;
    // Without the right to look up, there is no advice.
    const info: SubscriptionInfo | undefined = await client.lookUp(this.queue.name).catch(() => undefined);
    if (info === undefined) return;
    const lacks: string[] = [];
    if (!info.enableExactlyOnceDelivery) lacks.push("exactly-once delivery (otherwise lost leases go unnoticed)");
    if (!info.retryPolicy) lacks.push("a retry policy (otherwise retries come back at once)");
    if (!info.deadLetterPolicy) lacks.push("a dead-letter topic (otherwise each redelivery counts as a new request)");
    if (lacks.length > 0)
      this.#deps.log.warn(
        { queue: this.queue.name, lacks },
        "the subscription lacks settings that the dispatcher needs",
      );
  }

  #inBackground(work: Promise<unknown>): void {
    const task = work.then(
      () => undefined,
      (error: unknown) => {
        if (!this.#end.signal.aborted)
          this.#deps.log.warn(
            { queue: this.queue.name, error: messageOf(error) },
            "a background call to Pub/Sub failed",
          );
      },
    );
    this.#background.add(task);
    void task.then(() => this.#background.delete(task));
  }
}
