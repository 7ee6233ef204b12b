import type { Claim } from "../broker.ts";
import { encodeEnvelope } from "../messages/envelope.ts";
import type { QueueFile } from "./queue-file.ts";
import { deliveryOf } from "./rows.ts";
import type { DeliveryKey, QueueTables } from "./tables.ts";

/** Most remembered claims whose place differs from the one in their id. */
const MOST = 10_000;

/** Claims that were put back, and their places now. */
export type Restored = ReadonlyMap<Claim, DeliveryKey>;

/**
 * The meaning of a claim that the file does not hold.
 *
 * | the file at the path | the row of the claim's number | meaning | an answer in hand |
 * |---|---|---|---|
 * | the same as at the claim | any | taken over, or settled before | is dropped |
 * | a copy of it | the same request, claimed, in this delivery | held | is written, as recovered |
 * | a copy of it | the same request in an earlier delivery | an older copy: the claim was lost | is written, as recovered; the row goes |
 * | a copy of it | the same request, else | taken over | is dropped |
 * | a copy of it | another request, or none and the number was never given out | an older copy: the message was lost | is written, as recovered |
 * | a copy of it | none, and the number was given out | settled before | is dropped |
 * | another one | any | the store was lost | is written, as recovered |
 *
 * "Recovered" works through the claim: it is put back and is then like any other.
 */
export class Recovery {
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #moved = new Map<string, { readonly file: string; readonly delivery: DeliveryKey }>();

  constructor(file: QueueFile, tables: QueueTables) {
    this.#file = file;
    this.#tables = tables;
  }

  /** The place of a claim in this file, if it has one; the tables know whether the claim is still held. */
  find({ id }: Claim): DeliveryKey | undefined {
    const moved = this.#moved.get(id);
    if (moved?.file === this.#file.id) return moved.delivery;
    const delivery = deliveryOf(id);
    return delivery.file === this.#file.id ? delivery : undefined;
  }

  /**
   * Within a transaction: puts back a claim that is not held, if the file has lost it.
   * @param now and
   * @param ttl of its lease, milliseconds
   * @returns undefined: another process has it, or it is settled
   */
  restore(claim: Claim, now: number, ttl: number): DeliveryKey | undefined {
    if (this.find(claim) !== undefined) return undefined;
    const { store, seq: number, deliveries } = deliveryOf(claim.id);
    const { request } = claim.message;
    if (store === this.#file.store) {
      const row = this.#tables.standing(number);
      // A program that writes into the file by hand may leave the request out.
      if (row !== undefined && (row.request === request.id || row.request === "")) {
        if (row.deliveries > deliveries || (row.deliveries === deliveries && row.claimed === 0)) return undefined;
        const before = { seq: number, deliveries };
        this.#tables.reclaim(before, now + ttl, ttl);
        return before;
      }
      if (row === undefined && this.#tables.hasGivenOut(number)) return undefined;
    }
    const queue = this.#tables.makeQueue(claim.queue.name);
    const seq = this.#tables.add(queue, request.id, encodeEnvelope(claim.message), request.deadline, now);
    const delivery = { seq, deliveries: 1 };
    this.#tables.reclaim(delivery, now + ttl, ttl);
    return delivery;
  }

  /** After the transaction: remembers the places of the claims that were put back, and marks them. */
  keep(restored: Restored): void {
    for (const [claim, delivery] of restored) {
      claim.recovered = true;
      this.#moved.delete(claim.id);
      this.#moved.set(claim.id, { file: this.#file.id, delivery });
      if (this.#moved.size > MOST) this.#moved.delete(this.#moved.keys().next().value!);
    }
  }
}
