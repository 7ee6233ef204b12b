import type { Clock } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type {
  Broker,
  BrokerEvents,
  Claim,
  ClaimRequest,
  ClaimResult,
  QueueBacklog,
  Settlement,
  SettleOutcome,
} from "../brokers/broker.ts";
import { NO_ROUTING } from "../brokers/messages/envelope.ts";
import type { Message, QueuedRequest, Routing } from "../brokers/messages/message.ts";
import type { QueueSettings } from "../brokers/settings.ts";
import type { LineQueue } from "./line-queue.ts";
import type { QueuedLine } from "./queued-lines.ts";

/** Milliseconds until a line is tried again whose body cannot be read now. */
const UNREADABLE = 5000;

/** A claim with its line. */
interface LineClaim extends Claim {
  readonly line: QueuedLine;
  readonly delivery: number;
}

/** A message whose text nobody keeps. */
class LineMessage implements Message {
  readonly kind = "plain";
  readonly routing: Routing;
  readonly request: QueuedRequest;

  constructor(routing: Routing, request: QueuedRequest) {
    this.routing = routing;
    this.request = request;
  }

  get text(): string {
    return Buffer.from(this.request.payload!).toString();
  }
}

/**
 * The broker of a `LineQueue`, for one dispatcher in the same process. A lease cannot run out: what ends the dispatcher ends the
 * queue.
 */
export class LineBroker implements Broker {
  readonly #queue: LineQueue;
  readonly #queues: readonly QueueSettings[];
  readonly #pollInterval: number;
  readonly #clock: Clock;
  readonly #log: Logger;

  /** @param pollInterval milliseconds, the longest that `moveDue` may answer */
  constructor(
    queue: LineQueue,
    { queues, pollInterval }: { readonly queues: readonly QueueSettings[]; readonly pollInterval: number },
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
  ) {
    this.#queue = queue;
    this.#queues = queues;
    this.#pollInterval = pollInterval;
    this.#clock = clock;
    this.#log = log;
  }

  start(events: BrokerEvents): void {
    const byName = new Map(this.#queues.map((queue) => [queue.name, queue]));
    this.#queue.listen((name) => {
      const queue = byName.get(name);
      if (queue !== undefined) events.available(queue);
    });
  }

  async claim(queue: QueueSettings, { max, expired }: ClaimRequest): Promise<ClaimResult> {
    const time = this.#clock.wall();
    const claims: LineClaim[] = [];
    for (const line of this.#queue.claim(queue.name, time / 1000, max, expired)) {
      try {
        claims.push(this.#claim(queue, line));
      } catch (error) {
        // The line ends at its deadline at the latest, and holds up no other line.
        this.#log.warn(
          { file: line.request.place.path, error: messageOf(error) },
          "the body of a batch line cannot be read now",
        );
        this.#queue.park(line, UNREADABLE);
      }
    }
    return { claims, waiting: this.#queue.backlog(queue.name).waiting, time };
  }

  async settle(settlements: readonly Settlement[]): Promise<readonly SettleOutcome[]> {
    return settlements.map((settlement) => this.#settle(settlement));
  }

  async renew(): Promise<readonly Claim[]> {
    return [];
  }

  /** @throws SluiceError BROKER_UNAVAILABLE while requests may not go, so that a line that waited for long does not go, either */
  async cancelled(claims: readonly Claim[]): Promise<readonly boolean[]> {
    if (!this.#queue.isAllowed)
      throw new SluiceError("BROKER_UNAVAILABLE", "another process may have the batches by now");
    return claims.map((claim) => (claim as LineClaim).line.cancelled);
  }

  async moveDue(): Promise<number> {
    return Math.min(this.#queue.moveDue(), this.#pollInterval);
  }

  async reclaim(): Promise<void> {}

  async check(): Promise<void> {}

  async backlog({ name }: QueueSettings): Promise<QueueBacklog> {
    return this.#queue.backlog(name);
  }

  async close(): Promise<void> {
    this.#queue.listen(() => {});
  }

  #claim(queue: QueueSettings, line: QueuedLine): LineClaim {
    const { request, publishedAt, cancelled, retryCount, labels, deliveries: delivery, lines } = line;
    const { id, deadline, endpoint = "", headers = {} } = request;
    const message = new LineMessage(
      {
        ...NO_ROUTING,
        ...{ retryCount, labels, queueId: queue.id, requestQueueName: queue.name },
        resultQueueName: lines.resultQueueName,
      },
      {
        ...{ id, created: Math.floor(publishedAt / 1000), deadline, payload: lines.read(request.place) },
        ...{ metadata: {}, headers, endpoint },
      },
    );
    return { id: `${id}:${delivery}`, queue, message, cancelled, publishedAt, lost: false, line, delivery };
  }

  #settle(settlement: Settlement): SettleOutcome {
    const { line, delivery } = settlement.claim as LineClaim;
    if (!this.#queue.holds(line, delivery)) return "fenced";
    switch (settlement.kind) {
      case "result":
      case "dead":
        this.#queue.answer(line, settlement.result);
        return "settled";
      case "retry": {
        const { due, since = this.#clock.wall(), retryCount, labels } = settlement;
        line.retryCount = retryCount;
        line.labels = labels;
        // Not counted from now: the wall clock may have been set since.
        this.#queue.park(line, due * 1000 - since);
        return "settled";
      }
      case "refuse":
        line.labels = settlement.labels;
        this.#queue.putBack(line);
        return "settled";
    }
  }
}
