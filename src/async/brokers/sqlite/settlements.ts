import type { Clock } from "../../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { Claim, Settlement, SettleOutcome } from "../broker.ts";
import { givenUp, readEntry, resultRoute, unreadableResult } from "../intake.ts";
import type { ResultMessage } from "../messages/message.ts";
import { UnreadableMessage } from "../messages/request.ts";
import { encodeResult } from "../messages/result.ts";
import type { QueueSettings } from "../settings.ts";
import type { QueueFile } from "./queue-file.ts";
import type { Recovery, Restored } from "./recovery.ts";
import { changesOf, entryText, type MessageRow } from "./rows.ts";
import type { DeliveryKey, QueueTables } from "./tables.ts";

/** A settlement with its texts, made before the transaction begins. */
interface Prepared {
  readonly settlement: Settlement;
  /** Undefined: the delivery is of another file. */
  readonly delivery: DeliveryKey | undefined;
  /** Result or labels. */
  readonly text: string;
}

/** Ends claims: with a result, parked, back in the queue, or among the dead letters. */
export class Settlements {
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #clock: Clock;
  readonly #resultQueueName: string;
  readonly #recovery: Recovery;
  readonly #claimTtl: number;

  /** @param claimTtl milliseconds @param resultQueueName queue for results that neither the queue nor the message routes */
  constructor(
    file: QueueFile,
    tables: QueueTables,
    recovery: Recovery,
    clock: Clock,
    { resultQueueName, claimTtl }: { readonly resultQueueName: string; readonly claimTtl: number },
  ) {
    this.#file = file;
    this.#tables = tables;
    this.#recovery = recovery;
    this.#clock = clock;
    this.#resultQueueName = resultQueueName;
    this.#claimTtl = claimTtl;
  }

  /**
   * Settles all in one transaction. When one settlement cannot be written, each gets its own transaction, so that it does not
   * delay the others.
   * @param repeated called when that was necessary
   * @param restored called with claims that the file had lost, and that were put back for it
   * @throws SluiceError BROKER_UNAVAILABLE, QUEUE_FILE_CORRUPT: nothing was written
   */
  async settle(
    settlements: readonly Settlement[],
    repeated: () => void,
    restored: (claims: Restored) => void,
  ): Promise<SettleOutcome[]> {
    const prepared = settlements.map((settlement) => this.#prepare(settlement));
    try {
      return await this.#write(prepared, restored);
    } catch (error) {
      if (!(error instanceof SluiceError) || error.code !== "QUEUE_FILE_ERROR") throw error;
      repeated();
      return Promise.all(prepared.map((each) => this.#alone(each, restored)));
    }
  }

  /** Within a transaction: makes a dead letter of a claimed entry that is unreadable. */
  buryUnreadable(queue: QueueSettings, row: MessageRow, error: UnreadableMessage): void {
    this.#bury(queue, row, error.message, error.resultQueueName, unreadableResult(error));
  }

  /**
   * Within a transaction: gives up a message whose lease ran out too often.
   * @returns the reason; undefined when the message is no longer held
   */
  giveUp(queue: QueueSettings, delivery: DeliveryKey, lostLeases: number): string | undefined {
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
    return { settlement, delivery: this.#recovery.find(settlement.claim), text };
  }

  async #write(prepared: readonly Prepared[], restored: (claims: Restored) => void): Promise<SettleOutcome[]> {
    const [outcomes, put] = await this.#file.write(() => {
      // The transaction may be repeated.
      const back = new Map<Claim, DeliveryKey>();
      return [prepared.map((each) => this.#settle(each, back)), back] as const;
    });
    this.#recovery.keep(put);
    if (put.size > 0) restored(put);
    return outcomes;
  }

  /** @param restored notes a claim that the file had lost */
  #settle(prepared: Prepared, restored: Map<Claim, DeliveryKey>): SettleOutcome {
    const { claim } = prepared.settlement;
    const recovered = claim.recovered === true;
    if (this.#apply(prepared, recovered)) return recovered ? "recovered" : "settled";
    const delivery = this.#recovery.restore(claim, this.#clock.wall(), this.#claimTtl);
    if (delivery === undefined) return "fenced";
    restored.set(claim, delivery);
    this.#apply({ ...prepared, delivery }, true);
    return "recovered";
  }

  /** @param recovered true: the result is marked as recovered @returns false when the delivery is not held */
  #apply({ settlement, delivery, text }: Prepared, recovered: boolean): boolean {
    if (delivery === undefined) return false;
    const { queue, message } = settlement.claim;
    let done: boolean;
    switch (settlement.kind) {
      case "result":
        done = this.#tables.remove(delivery);
        if (done)
          this.#publish(
            queue,
            message.routing.resultQueueName,
            recovered ? encodeResult({ ...settlement.result, recovered }) : text,
          );
        break;
      case "retry": {
        const now = this.#clock.wall();
        const { due, since = now, retryCount } = settlement;
        done = this.#tables.park(delivery, {
          now,
          // Not counted from now: the wall clock may have been set since.
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
    return done;
  }

  async #alone(prepared: Prepared, restored: (claims: Restored) => void): Promise<SettleOutcome> {
    try {
      return (await this.#write([prepared], restored))[0]!;
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
