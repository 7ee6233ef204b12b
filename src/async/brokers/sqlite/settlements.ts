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

/** A settlement with the texts that it writes, made before the transaction begins. */
interface Prepared {
  readonly settlement: Settlement;
  /** Undefined: of another file. */
  readonly delivery: DeliveryKey | undefined;
  /** Result or labels. */
  readonly text: string;
}

/** How claims end: with a result, parked, back in the queue, or among the dead letters. */
export class Settlements {
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #clock: Clock;
  readonly #resultQueueName: string;
  readonly #recovery: Recovery;
  readonly #claimTtl: number;

  /** @param claimTtl milliseconds @param resultQueueName where results go that neither the queue nor the message routes */
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
   * Settles in one transaction; when one of them cannot be written each has its own, so that it does not hold up the others.
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

  /** Within a transaction: moves a claimed entry that nobody could read to the dead letters. */
  buryUnreadable(queue: QueueSettings, row: MessageRow, error: UnreadableMessage): void {
    this.#bury(queue, row, error.message, error.resultQueueName, unreadableResult(error));
  }

  /**
   * Within a transaction: gives up a message whose lease ran out once too often.
   * @returns why; undefined when it is not held any more
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

  /** @param restored takes note of a claim that the file had lost */
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

  /** @param recovered a result says so @returns false when the delivery is not held */
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
