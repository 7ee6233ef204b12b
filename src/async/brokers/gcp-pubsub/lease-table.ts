import type { AckReport } from "./client.ts";
import type { Delivery } from "./delivery.ts";

/** Leases on one message that are kept: the oldest have run out long ago. */
const LEASES = 64;

/** What became of a change of one delivery's leases. */
export type LeaseOutcome = "done" | "lost" | { readonly failed: string };

/**
 * The messages of one subscription that this process holds, by claim and by message: the service may deliver a message
 * again while it is held, and a table by message alone would forget the first delivery (hazard H-29).
 * Bounded by what is claimed and buffered.
 */
export class LeaseTable {
  readonly #byClaim = new Map<string, Delivery>();
  readonly #byMessage = new Map<string, Delivery>();

  get(claimId: string): Delivery | undefined {
    return this.#byClaim.get(claimId);
  }

  all(): IterableIterator<Delivery> {
    return this.#byClaim.values();
  }

  has(delivery: Delivery): boolean {
    return this.#byClaim.get(delivery.claim.id) === delivery;
  }

  /** @returns the delivery that is in work for this message: the given one, or an older one that got one more lease */
  admit(delivery: Delivery): Delivery {
    const held = this.#byMessage.get(delivery.messageId);
    // One that is going back may be delivered again before the answer to that is here.
    if (held !== undefined && held.settling !== "give-back") {
      held.ackIds.push(...delivery.ackIds);
      if (held.ackIds.length > LEASES) held.ackIds.splice(0, held.ackIds.length - LEASES);
      return held;
    }
    this.#byClaim.set(delivery.claim.id, delivery);
    if (delivery.messageId !== "") this.#byMessage.set(delivery.messageId, delivery);
    return delivery;
  }

  remove(delivery: Delivery): void {
    this.#byClaim.delete(delivery.claim.id);
    if (this.#byMessage.get(delivery.messageId) === delivery) this.#byMessage.delete(delivery.messageId);
  }

  /**
   * Takes note of leases that are gone. A delivery without any is removed, and its claim marked as lost.
   * @param ackIds those of the delivery that `report` is about
   */
  apply(delivery: Delivery, ackIds: readonly string[], report: AckReport): LeaseOutcome {
    if (report.lost.size > 0) delivery.ackIds = delivery.ackIds.filter((id) => !report.lost.has(id));
    if (delivery.ackIds.length === 0) {
      delivery.claim.lost = true;
      this.remove(delivery);
      return "lost";
    }
    for (const id of ackIds) {
      const reason = report.failed.get(id);
      if (reason !== undefined) return { failed: reason };
    }
    return "done";
  }
}
