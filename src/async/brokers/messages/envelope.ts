import { isObject } from "../../../base/document/json-object.ts";
import { memberRanges } from "./json-members.ts";
import type { EnvelopeKind, Message, Routing } from "./message.ts";
import { integerMember, parseObject, readRequest, textField, textMap, UnreadableMessage } from "./request.ts";

const KINDS: ReadonlySet<unknown> = new Set<EnvelopeKind>(["plain", "redis", "pubsub"]);

/** The routing of a message that was not routed yet. */
export const NO_ROUTING: Routing = {
  retryCount: 0,
  queueId: "",
  requestToken: "",
  requestQueueName: "",
  resultQueueName: "",
  correlationId: "",
  labels: {},
  lostLeases: 0,
};

/**
 * Reads an envelope (async-processor 4.2): the JSON text that Redis transports keep.
 * @throws UnreadableMessage with the request's id and result queue, where they can be found
 */
export function parseEnvelope(text: string): Message {
  const value = parseObject(text, "the entry");
  const data = value["data"];
  const internal = value["internal"] ?? {};
  const known = {
    id: isObject(data) && typeof data["id"] === "string" ? data["id"] : "",
    resultQueueName:
      isObject(internal) && typeof internal["result_queue_name"] === "string" ? internal["result_queue_name"] : "",
  };
  const kind = value["request_kind"];
  if (!KINDS.has(kind))
    throw new UnreadableMessage(
      kind === undefined ? "request_kind is missing" : `request_kind is ${JSON.stringify(kind)?.slice(0, 100)}`,
      known,
    );
  if (!isObject(data) || Object.keys(data).length === 0)
    throw new UnreadableMessage("data is missing or not a JSON object", known);
  if (!isObject(internal)) throw new UnreadableMessage("internal is not a JSON object", known);
  const range = memberRanges(text).get("data")!;
  const dataText = text.slice(range.start, range.end);
  try {
    return {
      routing: readRouting(internal, known.id),
      kind: kind as EnvelopeKind,
      request: readRequest(dataText, data),
      text: dataText,
    };
  } catch (error) {
    if (error instanceof UnreadableMessage) throw new UnreadableMessage(error.message, known);
    throw error;
  }
}

/** The JSON text of an envelope; the request's own text stays as it is. */
export function encodeEnvelope({ routing, kind, text }: Pick<Message, "routing" | "kind" | "text">): string {
  return `{"internal":${JSON.stringify(routingMembers(routing))},"request_kind":"${kind}","data":${text}}`;
}

function readRouting(internal: Readonly<Record<string, unknown>>, id: string): Routing {
  return {
    retryCount: Math.max(0, integerMember(internal, "retry_count", id, 0)),
    queueId: textField(internal, "queue_id", id),
    requestToken: textField(internal, "request_token", id),
    requestQueueName: textField(internal, "request_queue_name", id),
    resultQueueName: textField(internal, "result_queue_name", id),
    correlationId: textField(internal, "transport_correlation_id", id),
    labels: textMap(internal, "labels", id),
    lostLeases: Math.max(0, integerMember(internal, "lost_leases", id, 0)),
  };
}

/** Empty members are left out, as in other processors. */
function routingMembers(routing: Routing): Record<string, unknown> {
  return {
    retry_count: routing.retryCount || undefined,
    queue_id: routing.queueId || undefined,
    request_token: routing.requestToken || undefined,
    request_queue_name: routing.requestQueueName || undefined,
    result_queue_name: routing.resultQueueName || undefined,
    transport_correlation_id: routing.correlationId || undefined,
    labels: Object.keys(routing.labels).length === 0 ? undefined : routing.labels,
    lost_leases: routing.lostLeases || undefined,
  };
}

/**
 * Reads a request without an envelope, as Pub/Sub carries it (async-processor 4.3).
 * @param attributes go into the metadata and overwrite entries of the same name
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
