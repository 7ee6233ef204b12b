import { encodeEnvelope, parseEnvelope } from "./messages/envelope.ts";
import type { Message, ResultMessage, Routing } from "./messages/message.ts";
import { UnreadableMessage } from "./messages/request.ts";
import { errorResult } from "./messages/result.ts";
import type { QueueSettings } from "./settings.ts";

/**
 * Reads an entry taken from `queue`. Where it came from counts, not what it says of itself: queue id and queue name are the
 * configuration's, and its labels win over the message's, of which none count unless they are trusted. Source:
 * async-processor 4.2 (H-17).
 * @param changes to its routing since it was written, where a broker keeps those beside the entry
 * @throws UnreadableMessage
 */
export function readEntry(text: string, queue: QueueSettings, changes: Partial<Routing> = {}): Message {
  const message = parseEnvelope(text);
  const routing = { ...message.routing, ...changes };
  const labels = queue.trustMessageLabels ? { ...routing.labels, ...queue.labels } : queue.labels;
  return { ...message, routing: { ...routing, queueId: queue.id, requestQueueName: queue.name, labels } };
}

/**
 * Where the result of a message goes (async-processor 5.2.4).
 * @param named what the message names, or ""
 * @param fallback the transport's own
 */
export function resultRoute(queue: QueueSettings, named: string, fallback: string): string {
  return queue.resultQueueName || named || fallback;
}

/** What the owner of an unreadable entry is told; undefined when nobody knows who that is. */
export function unreadableResult(error: UnreadableMessage): ResultMessage | undefined {
  return error.id === ""
    ? undefined
    : errorResult(error.id, "INVALID_REQUEST", `Failed to read the message: ${error.message}`);
}

/** Why a message is given up whose lease ran out once too often, and what its owner is told. */
export function givenUp(id: string, lostLeases: number): { readonly reason: string; readonly result: ResultMessage } {
  const reason = `given up: processors were lost with it ${lostLeases} times`;
  return { reason, result: errorResult(id, "INFERENCE_ERROR", `Failed to send request to inference: ${reason}`) };
}

/**
 * A dead letter as it goes back into its queue: leases lost before do not count any more. What cannot be read goes to the
 * front as it is, and back to the dead letters unless somebody mended it.
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
