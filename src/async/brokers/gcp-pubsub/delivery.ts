import { isUtf8 } from "node:buffer";
import type { Claim } from "../broker.ts";
import { parseBareRequest } from "../messages/bare-request.ts";
import { UnreadableMessage } from "../messages/request.ts";
import type { QueueSettings } from "../settings.ts";
import type { Received } from "./client.ts";

/** A message that the service has leased to this process. */
export interface Delivery {
  readonly claim: Claim;
  readonly messageId: string;
  /**
   * Leases on it: one, and one more for each time the service delivers the same message again while it is held here.
   * The newer ones need no worker of their own: one end settles all.
   */
  ackIds: string[];
  /** Its result was confirmed; what is left is to acknowledge. */
  published: boolean;
  /** A write for it has failed before. */
  failed: boolean;
  /** What is under way for it: nothing, its end, or its way back (which no renewal may undo). */
  settling: "no" | "result" | "give-back";
  /** The last look found it in nobody's hands. */
  unheld: boolean;
}

/**
 * Reads a message as it comes from a subscription (async-processor 4.3).
 * @param id of the claim, unique per delivery
 * @throws UnreadableMessage
 */
export function readDelivery(queue: QueueSettings, received: Received, id: string): Delivery {
  const message = received.message;
  const data = bytesOf(message?.data);
  if (!isUtf8(data)) throw new UnreadableMessage("the message is no UTF-8 text");
  const messageId = message?.messageId ?? "";
  const bare = parseBareRequest(data.toString("utf8"), message?.attributes ?? {}, {
    // 0 without a dead-letter policy: the service then counts no deliveries.
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

/** 64-bit seconds come as a text or as an object that can be one. */
function milliseconds(time: { seconds?: unknown; nanos?: number | null } | null | undefined): number {
  if (time === null || time === undefined) return Number.NaN;
  return Number(String(time.seconds ?? 0)) * 1000 + (time.nanos ?? 0) / 1e6;
}
