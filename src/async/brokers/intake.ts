import { encodeEnvelope, parseEnvelope } from "./messages/envelope.ts";
import type { Message, ResultMessage, Routing } from "./messages/message.ts";
import { UnreadableMessage } from "./messages/request.ts";
import { errorResult } from "./messages/result.ts";
import type { QueueSettings } from "./settings.ts";

/**
 * Reads an entry taken from `queue`. Its origin counts, not its content: queue id and queue name are the configuration's, and
 * the configured labels win over the message's. The message's labels count only if they are trusted. Source:
 * async-processor 4.2 (H-17).
 * @param changes to its routing since it was written, where a broker keeps them beside the entry
 * @throws UnreadableMessage
 */
export function readEntry(text: string, queue: QueueSettings, changes: Partial<Routing> = {}): Message {
  const message = parseEnvelope(text);
  const routing = { ...message.routing, ...changes };
  const labels = queue.trustMessageLabels ? { ...routing.labels, ...queue.labels } : queue.labels;
  return { ...message, routing: { ...routing, queueId: queue.id, requestQueueName: queue.name, labels } };
}

/**
 * The queue for the result of a message (async-processor 5.2.4).
 * @param named the queue in the message, or ""
 * @param fallback the transport's own
 */
export function resultRoute(queue: QueueSettings, named: string, fallback: string): string {
  return queue.resultQueueName || named || fallback;
}

/** The result for the owner of an unreadable entry; undefined when the owner is unknown. */
export function unreadableResult(error: UnreadableMessage): ResultMessage | undefined {
  return error.id === ""
    ? undefined
    : errorResult(error.id, "INVALID_REQUEST", `Failed to read the message: ${error.message}`);
}

/** Why a message is given up after too many lost leases, and the result for its owner. */
export function givenUp(id: string, lostLeases: number): { readonly reason: string; readonly result: ResultMessage } {
  const reason = `given up after ${lostLeases} expired leases`;
  return { reason, result: errorResult(id, "INFERENCE_ERROR", `Failed to send request to inference: ${reason}`) };
}

/**
 * A dead letter as it goes back into its queue: earlier lost leases no longer count. An unreadable entry goes to the front as
 * it is, and becomes a dead letter again unless a person has mended it.
 */
export function revived(entry: string): { readonly id: string; readonly text: string; readonly score: number } {
  try {
    const message = parseEnvelope(entry);
    const text = encodeEnvelope({ ...message, routing: { ...message.routing, lostLeases: 0 } });
    return { id: message.request.id, text, score: message.request.deadline };
  } catch (error) {
    if (!(error instanceof UnreadableMessage)) throw error;
    return { id: error.id, text: entry, score: 0 };
  }
}
