import type { Clock } from "../../../base/clock/clock.ts";
import type { Random } from "../../../base/clock/random.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { Logger } from "../../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../../base/telemetry/rate-limited-log.ts";
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
import type { ResultMessage } from "../messages/message.ts";
import type { PubSubSettings, QueueSettings } from "../settings.ts";
import { PubSubClient, publishResults, undeliveredMessages } from "./client.ts";
import type { LeasedMessage, LeaseOutcome } from "./lease-table.ts";
import { Subscription } from "./subscription.ts";

/** Seconds until a refused message is delivered again (async-processor 5.4). */
const REFUSED = 10;

/** Milliseconds between two log lines about the backlog of one subscription: Cloud Monitoring may be forbidden for good. */
const LOG_INTERVAL = 600_000;

export interface PubSubDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  /** `host:port` of an emulator, in place of the environment's (`PUBSUB_EMULATOR_HOST`). */
  readonly endpoint?: string;
}

/**
 * Google Pub/Sub (async-processor 5.4): at least one result per message, under the same request id. Leases are the service's
 * ack deadlines. The subscription decides when it delivers a returned message again; `due` has no effect. Calls reject with
 * PUBSUB_CLIENT_MISSING when Google's client is not installed.
 */
export function pubSubBroker(settings: PubSubSettings, deps: PubSubDeps): Broker {
  return new PubSubBroker(settings, deps);
}

/** A settlement under way; `at` = its place among the outcomes. */
interface Pending {
  readonly at: number;
  readonly delivery: LeasedMessage;
  /** Undefined: the message goes back. */
  readonly result: ResultMessage | undefined;
  readonly delay: number;
}

class PubSubBroker implements Broker {
  readonly #settings: PubSubSettings;
  readonly #deps: PubSubDeps;
  readonly #subscriptions = new Map<string, Subscription>();
  /** The last figures of Cloud Monitoring. */
  readonly #undelivered = new Map<string, number>();
  readonly #client: Promise<PubSubClient>;
  readonly #log: RateLimitedLog;
  #load: () => void = () => {};
  #events: BrokerEvents | undefined;

  constructor(settings: PubSubSettings, deps: PubSubDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#log = new RateLimitedLog(deps.log, deps.clock, { intervalMs: LOG_INTERVAL, maxKeys: 64 });
    const { projectId, resultTopicId, leases } = settings;
    this.#client = new Promise<void>((resolve) => {
      this.#load = resolve;
    }).then(() => PubSubClient.load({ projectId, resultTopicId, endpoint: deps.endpoint }));
    this.#client.catch((error: unknown) => deps.log.error({ error: messageOf(error) }, "Pub/Sub cannot be used"));
    for (const queue of settings.queues)
      this.#subscriptions.set(queue.name, new Subscription(queue, { ...deps, client: this.#client, leases }));
  }

  start(events: BrokerEvents): void {
    this.#events = events;
    this.#load();
    for (const subscription of this.#subscriptions.values()) subscription.start(events);
  }

  async claim(queue: QueueSettings, request: ClaimRequest): Promise<ClaimResult> {
    const claims = this.#subscription(queue).prefetch.take(request);
    return { claims, waiting: Number.NaN, time: this.#deps.clock.wall() };
  }

  async settle(settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]> {
    const client = await this.#client;
    const outcomes = new Array<SettleOutcome>(settlements.length).fill("fenced");
    const pending = new Map<Subscription, Pending[]>();
    settlements.forEach((settlement, at) => {
      const { claim, kind } = settlement;
      const subscription = this.#subscription(claim.queue);
      const delivery = subscription.leases.get(claim.id);
      if (delivery === undefined) return;
      if (delivery.failed) this.#events?.writeRetried();
      const result = kind === "result" || kind === "dead" ? settlement.result : undefined;
      delivery.settling = result === undefined ? "give-back" : "result";
      const list = pending.get(subscription) ?? [];
      list.push({ at, delivery, result, delay: kind === "refuse" ? REFUSED : 0 });
      pending.set(subscription, list);
    });
    await this.#publish(client, [...pending.values()].flat(), outcomes);
    await Promise.all(
      [...pending].flatMap(([subscription, list]) => {
        const published = list.filter(({ delivery, result }) => result !== undefined && delivery.published);
        const returned = list.filter(({ result, delay }) => result === undefined && delay === 0);
        const refused = list.filter(({ delay }) => delay > 0);
        const change = async (
          some: readonly Pending[],
          send: (deliveries: readonly LeasedMessage[]) => Promise<readonly LeaseOutcome[]>,
        ): Promise<void> => {
          if (some.length === 0) return;
          const verdicts = await send(some.map(({ delivery }) => delivery));
          for (const [index, pending] of some.entries()) conclude(pending, verdicts[index]!, outcomes);
        };
        return [
          change(published, (deliveries) => subscription.acknowledge(deliveries)),
          change(returned, (deliveries) => subscription.giveBack(deliveries, 0)),
          change(refused, (deliveries) => subscription.giveBack(deliveries, REFUSED)),
        ];
      }),
    );
    return outcomes;
  }

  async renew(claims: readonly Claim[]): Promise<readonly Claim[]> {
    const held = new Map<Subscription, LeasedMessage[]>();
    for (const claim of claims) {
      const subscription = this.#subscription(claim.queue);
      const delivery = subscription.leases.get(claim.id);
      if (delivery === undefined) claim.lost = true;
      else if (delivery.settling !== "give-back") {
        const list = held.get(subscription) ?? [];
        list.push(delivery);
        held.set(subscription, list);
      }
    }
    const problems = await Promise.all([...held].map(([subscription, list]) => subscription.extend(list)));
    const problem = problems.find((reason) => reason !== undefined);
    if (problem !== undefined) throw new SluiceError("BROKER_UNAVAILABLE", `leases cannot be extended: ${problem}`);
    return claims.filter(({ lost }) => lost);
  }

  async cancelled(claims: readonly Claim[]): Promise<readonly boolean[]> {
    return claims.map(() => false);
  }

  /** Retries stay in the service, which delivers them again. */
  async moveDue(): Promise<number> {
    return this.#settings.pollInterval;
  }

  /**
   * The service queues messages again whose leases are not renewed. This call gives back only claims that no caller took:
   * otherwise their messages, delivered again, would look like work under way.
   */
  async reclaim(held: ReadonlySet<string>): Promise<void> {
    for (const subscription of this.#subscriptions.values()) {
      const count = await subscription.release(held);
      if (count > 0) this.#events?.reclaimed(subscription.queue, count);
    }
  }

  async check(): Promise<void> {
    await Promise.all([...this.#subscriptions.values()].map((subscription) => subscription.check()));
  }

  /** Cloud Monitoring counts claimed messages as waiting, and answers minutes late; without an answer the last figure stays. */
  async backlog(queue: QueueSettings): Promise<QueueBacklog> {
    const client = await this.#client;
    const unknown = Number.NaN;
    let waiting = this.#undelivered.get(queue.name) ?? unknown;
    if (client.monitored) {
      try {
        const now = this.#deps.clock.wall();
        waiting = await undeliveredMessages((url) => client.get(url), this.#settings.projectId, queue.name, now);
        this.#undelivered.set(queue.name, waiting);
      } catch (error) {
        const fields = { queue: queue.name, error: messageOf(error) };
        this.#log.log(
          "warn",
          queue.name,
          fields,
          "Cloud Monitoring returned no backlog figure; Sluice keeps the last figure",
        );
      }
    }
    return { waiting, claimed: unknown, retries: unknown, dead: unknown, nextDeadline: unknown };
  }

  async close(): Promise<void> {
    if (this.#events === undefined) return;
    await Promise.all([...this.#subscriptions.values()].map((subscription) => subscription.close()));
    const client = await this.#client.catch(() => undefined);
    await client?.close();
  }

  /** Results first: only messages with a confirmed result may be acknowledged (hazard H-11). */
  async #publish(client: PubSubClient, all: readonly Pending[], outcomes: SettleOutcome[]): Promise<void> {
    const some = all.filter(({ delivery, result }) => result !== undefined && !delivery.published);
    const problems = await publishResults(
      client,
      some.map(({ result }) => result!),
    );
    some.forEach((pending, index) => {
      const problem = problems[index];
      if (problem === undefined) pending.delivery.published = true;
      else conclude(pending, { failed: `the result was not published: ${problem}` }, outcomes);
    });
  }

  #subscription(queue: QueueSettings): Subscription {
    const subscription = this.#subscriptions.get(queue.name);
    if (subscription === undefined)
      throw new SluiceError("QUEUE_UNKNOWN", `no subscription ${queue.name} is configured`);
    return subscription;
  }
}

/** A published result counts as settled even when its lease was gone by then: its owner has it. */
function conclude({ at, delivery, result }: Pending, verdict: LeaseOutcome, outcomes: SettleOutcome[]): void {
  if (typeof verdict === "object") {
    delivery.failed = true;
    delivery.settling = "no";
    outcomes[at] = verdict;
  } else outcomes[at] = verdict === "lost" && result === undefined ? "fenced" : "settled";
}
