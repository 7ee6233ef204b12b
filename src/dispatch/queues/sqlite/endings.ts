import type { Clock } from "../../../clock/clock.ts";
import { messageOf, SluiceError } from "../../../inference/errors.ts";
import type { ResultMessage } from "../../messages/message.ts";
import { UnreadableMessage } from "../../messages/request.ts";
import { encodeResult } from "../../messages/result.ts";
import type { QueueSettings } from "../../settings.ts";
import type { Settlement, SettleOutcome } from "../broker.ts";
import { givenUp, readEntry, resultRoute, unreadableResult } from "../intake.ts";
import type { QueueFile } from "./queue-file.ts";
import { changesOf, deliveryOf, entryText, type MessageRow } from "./rows.ts";
import type { Delivery, QueueTables } from "./tables.ts";

/** A settlement with the texts that it writes, made before the transaction begins. */
interface Prepared {
  readonly settlement: Settlement;
  /** Undefined: of another file. */
  readonly delivery: Delivery | undefined;
  /** Result or labels. */
  readonly text: string;
}

/** How claims end: with a result, parked, back in the queue, or among the dead letters. */
export class Endings {
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #clock: Clock;
  readonly #resultQueueName: string;

  /** @param resultQueueName where results go that neither the queue nor the message routes */
  constructor(file: QueueFile, tables: QueueTables, clock: Clock, resultQueueName: string) {
    this.#file = file;
    this.#tables = tables;
    this.#clock = clock;
    this.#resultQueueName = resultQueueName;
  }

  /**
   * Settles in one transaction; when one of them cannot be written each has its own, so that it does not hold up the others.
   * @param repeated called when that was necessary
   * @throws SluiceError BROKER_UNAVAILABLE, QUEUE_FILE_CORRUPT: nothing was written
   */
  async settle(settlements: readonly Settlement[], repeated: () => void): Promise<SettleOutcome[]> {
    const prepared = settlements.map((settlement) => this.#prepare(settlement));
    try {
      return await this.#file.write(() => prepared.map((each) => this.#apply(each)));
    } catch (error) {
      if (!(error instanceof SluiceError) || error.code !== "QUEUE_FILE_ERROR") throw error;
      repeated();
      return Promise.all(prepared.map((each) => this.#alone(each)));
    }
  }

  /** Within a transaction: moves a claimed entry that nobody could read to the dead letters. */
  buryUnreadable(queue: QueueSettings, row: MessageRow, error: UnreadableMessage): void {
    this.#bury(queue, row, error.message, error.resultQueueName, unreadableResult(error));
  }

  /**
   * Within a transaction: gives up a message whose lease ran out once too often.
   * @returns why; undefined when it is not held any more
   */
  giveUp(queue: QueueSettings, delivery: Delivery, lostLeases: number): string | undefined {
    const row = this.#tables.held(delivery);
    if (row === undefined) return undefined;
    try {
      const { request, routing } = readEntry(row.body, queue, changesOf(row));
      const { reason, result } = givenUp(request.id, lostLeases);
      this.#bury(queue, { ...row, lost: lostLeases }, reason, routing.resultQueueName, result);
      return reason;
    } catch (error) {
      if (!(error instanceof UnreadableMessage)) throw error;
      this.buryUnreadable(queue, row, error);
      return error.message;
    }
  }

  #prepare(settlement: Settlement): Prepared {
    const text =
      settlement.kind === "result" || settlement.kind === "dead"
        ? encodeResult(settlement.result)
        : JSON.stringify(settlement.labels);
    return { settlement, delivery: deliveryOf(this.#file.id, settlement.claim.id), text };
  }

  #apply({ settlement, delivery, text }: Prepared): SettleOutcome {
    if (delivery === undefined) return "fenced";
    const { queue, message } = settlement.claim;
    let done: boolean;
    switch (settlement.kind) {
      case "result":
        done = this.#tables.remove(delivery);
        if (done) this.#publish(queue, message.routing.resultQueueName, text);
        break;
      case "retry": {
        const now = this.#clock.wall();
        const { due, since = now, retryCount } = settlement;
        done = this.#tables.park(delivery, {
          now,
          // Not from now on: the wall clock may have been set since.
          pause: Math.max(0, due * 1000 - since),
          score: message.request.deadline,
          retries: retryCount,
          labels: text,
        });
        break;
      }
      case "refuse":
        done = this.#tables.refuse(delivery, text);
        break;
      case "dead": {
        const row = this.#tables.held(delivery);
        done = row !== undefined;
        if (row !== undefined)
          this.#bury(queue, row, settlement.reason, message.routing.resultQueueName, settlement.result);
        break;
      }
    }
    return done ? "settled" : "fenced";
  }

  async #alone(prepared: Prepared): Promise<SettleOutcome> {
    try {
      return await this.#file.write(() => this.#apply(prepared));
    } catch (error) {
      return { failed: messageOf(error) };
    }
  }

  #bury(queue: QueueSettings, row: MessageRow, reason: string, named: string, result: ResultMessage | undefined): void {
    this.#tables.addDead(this.#tables.queue(queue.name), entryText(row), reason, this.#clock.wall());
    this.#tables.remove(row);
    if (result !== undefined) this.#publish(queue, named, encodeResult(result));
  }

  #publish(queue: QueueSettings, named: string, text: string): void {
    this.#tables.addResult(resultRoute(queue, named, this.#resultQueueName), text);
  }
}
