import { NO_ROUTING } from "./envelope.ts";
import type { Message } from "./message.ts";
import { parseObject, readRequest } from "./request.ts";

/**
 * Reads a request without an envelope, as Pub/Sub carries it (async-processor 4.3).
 * @param attributes go into the metadata and overwrite what has the same name there
 * @throws UnreadableMessage
 */
export function parseBareRequest(
  text: string,
  attributes: Readonly<Record<string, string>>,
  routing: { readonly retryCount: number; readonly correlationId: string; readonly requestQueueName: string },
): Message {
  const request = readRequest(text, parseObject(text, "the message"));
  return {
    routing: { ...NO_ROUTING, ...routing },
    kind: "pubsub",
    request: { ...request, metadata: { ...request.metadata, ...attributes } },
    text,
  };
}
