import { isUtf8 } from "node:buffer";
import type { Claim } from "../broker.ts";
import { parseBareRequest } from "../messages/envelope.ts";
import { UnreadableMessage } from "../messages/request.ts";
import type { QueueSettings } from "../settings.ts";
import type { AckReport, Received } from "./client.ts";

/** A message that the service has leased to this process. */
export interface LeasedMessage {
  readonly claim: Claim;
  readonly messageId: string;
  /**
   * The leases on the message: one, and one more for each time the service delivers it again while this process holds it.
   * The newer leases need no worker of their own: one outcome settles all.
   */
  ackIds: string[];
  /** The result was confirmed; only the acknowledgement is left. */
  published: boolean;
  /** A write for the message failed before. */
  failed: boolean;
  /** The change under way: none, its end, or its way back (which no renewal may undo). */
  settling: "no" | "result" | "give-back";
  /** The last check found no holder of the message in this process. */
  unheld: boolean;
}

/**
 * Reads a message as a subscription delivers it (async-processor 4.3).
 * @param id of the claim, unique per delivery
 * @throws UnreadableMessage
 */
export function readLeasedMessage(queue: QueueSettings, received: Received, id: string): LeasedMessage {
  const message = received.message;
  const data = bytesOf(message?.data);
  if (!isUtf8(data)) throw new UnreadableMessage("the message is not UTF-8 text");
  const messageId = message?.messageId ?? "";
  const bare = parseBareRequest(data.toString("utf8"), message?.attributes ?? {}, {
    // 0 without a dead-letter policy: then the service counts no deliveries.
    retryCount: Math.max(0, (received.deliveryAttempt ?? 0) - 1),
    correlationId: messageId,
    requestQueueName: queue.name,
  });
  return {
    claim: {
      id,
      queue,
      message: { ...bare, routing: { ...bare.routing, queueId: queue.id, labels: queue.labels } },
      cancelled: false,
      publishedAt: milliseconds(message?.publishTime),
      lost: false,
    },
    messageId,
    ackIds: [received.ackId ?? ""],
    published: false,
    failed: false,
    settling: "no",
    unheld: false,
  };
}

function bytesOf(data: Uint8Array | string | null | undefined): Buffer {
  if (data instanceof Uint8Array) return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return Buffer.from(data ?? "", "base64");
}

/** 64-bit seconds come as a text, or as an object that converts to one. */
function milliseconds(time: { seconds?: unknown; nanos?: number | null } | null | undefined): number {
  if (time === null || time === undefined) return Number.NaN;
  return Number(String(time.seconds ?? 0)) * 1000 + (time.nanos ?? 0) / 1e6;
}

/** Most leases kept on one message: the oldest have run out long ago. */
const LEASES = 64;

/** The outcome of a change of one delivery's leases. */
export type LeaseOutcome = "done" | "lost" | { readonly failed: string };

/**
 * The messages of one subscription that this process holds, by claim and by message. The service may deliver a message again
 * while it is held, and a table by message alone would forget the first delivery (hazard H-29).
 * The claimed and buffered messages bound its size.
 */
export class LeaseTable {
  readonly #byClaim = new Map<string, LeasedMessage>();
  readonly #byMessage = new Map<string, LeasedMessage>();

  get(claimId: string): LeasedMessage | undefined {
    return this.#byClaim.get(claimId);
  }

  all(): IterableIterator<LeasedMessage> {
    return this.#byClaim.values();
  }

  has(delivery: LeasedMessage): boolean {
    return this.#byClaim.get(delivery.claim.id) === delivery;
  }

  /** @returns the delivery that is in work for this message: the given one, or an older one with one more lease */
  admit(delivery: LeasedMessage): LeasedMessage {
    const held = this.#byMessage.get(delivery.messageId);
    // A message that goes back may be delivered again before the answer to that call comes.
    if (held !== undefined && held.settling !== "give-back") {
      held.ackIds.push(...delivery.ackIds);
      if (held.ackIds.length > LEASES) held.ackIds.splice(0, held.ackIds.length - LEASES);
      return held;
    }
    this.#byClaim.set(delivery.claim.id, delivery);
    if (delivery.messageId !== "") this.#byMessage.set(delivery.messageId, delivery);
    return delivery;
  }

  remove(delivery: LeasedMessage): void {
    this.#byClaim.delete(delivery.claim.id);
    if (this.#byMessage.get(delivery.messageId) === delivery) this.#byMessage.delete(delivery.messageId);
  }

  /**
   * Removes leases that are gone. A delivery without any lease is removed, and its claim marked as lost.
   * @param ackIds leases of the delivery that `report` is about
   */
  apply(delivery: LeasedMessage, ackIds: readonly string[], report: AckReport): LeaseOutcome {
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
