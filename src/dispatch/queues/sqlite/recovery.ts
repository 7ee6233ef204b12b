import { encodeEnvelope } from "../../messages/envelope.ts";
import type { Claim } from "../broker.ts";
import type { QueueFile } from "./queue-file.ts";
import { deliveryOf } from "./rows.ts";
import type { Delivery, QueueTables } from "./tables.ts";

/** Claims remembered that stand in another place than their id says. */
const MOST = 10_000;

/** Claims that were put back, and where they stand now. */
export type Restored = ReadonlyMap<Claim, Delivery>;

/**
 * What a claim means that is not held in the file. A file that was deleted or replaced has another id than the claim. A file
 * that went back in time (an older copy was put in its place) has the message in an earlier delivery, or has never given out
 * its number. In both cases nobody but this process has the message: the claim is put back. In every other case somebody
 * took the message over, or it was settled.
 */
export class Recovery {
  readonly #file: QueueFile;
  readonly #tables: QueueTables;
  readonly #moved = new Map<string, { readonly file: string; readonly delivery: Delivery }>();

  constructor(file: QueueFile, tables: QueueTables) {
    this.#file = file;
    this.#tables = tables;
  }

  /** Where a claim stands in this file, if it does; whether it is held still is for the tables to say. */
  find({ id }: Claim): Delivery | undefined {
    const moved = this.#moved.get(id);
    return moved?.file === this.#file.id ? moved.delivery : deliveryOf(this.#file.id, id);
  }

  /**
   * Within a transaction: puts a claim back that is not held, if the file has lost it.
   * @param now and @param ttl of its lease, milliseconds
   * @returns undefined: it is somebody else's, or settled
   */
  restore(claim: Claim, now: number, ttl: number): Delivery | undefined {
    const before = this.find(claim);
    const { request } = claim.message;
    if (before !== undefined) {
      const row = this.#tables.standing(before.seq);
      if (row?.request === request.id) {
        if (row.deliveries >= before.deliveries) return undefined;
        this.#tables.reclaim(before, now + ttl, ttl);
        return before;
      }
      if (row === undefined && this.#tables.hasGivenOut(before.seq)) return undefined;
    }
    const queue = this.#tables.makeQueue(claim.queue.name);
    const seq = this.#tables.add(queue, request.id, encodeEnvelope(claim.message), request.deadline, now);
    const delivery = { seq, deliveries: 1 };
    this.#tables.reclaim(delivery, now + ttl, ttl);
    return delivery;
  }

  /** After the transaction: remembers where those stand that were put back, and marks them. */
  keep(restored: Restored): void {
    for (const [claim, delivery] of restored) {
      claim.recovered = true;
      this.#moved.delete(claim.id);
      this.#moved.set(claim.id, { file: this.#file.id, delivery });
      if (this.#moved.size > MOST) this.#moved.delete(this.#moved.keys().next().value!);
    }
  }
}
