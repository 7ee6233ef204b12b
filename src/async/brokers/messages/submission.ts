import { isObject } from "../../../base/document/json-object.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { SubmitRequest } from "../queue-client.ts";
import { encodeEnvelope, NO_ROUTING } from "./envelope.ts";

/** The entry that a producer writes for one request. */
export interface Submission {
  readonly id: string;
  readonly deadline: number;
  readonly token: string;
  readonly requestQueueName: string;
  readonly envelope: string;
}

export interface SubmissionDefaults {
  readonly requestQueueName: string;
  readonly resultQueueName: string;
  /** Unix seconds. */
  readonly now: number;
  /** 32 hex digits that no other submission has. */
  readonly token: string;
}

/**
 * Checks a request and makes its envelope (async-processor 4.6). A payload given as text stays unchanged.
 * @throws SluiceError REQUEST_INVALID
 */
export function submission(request: SubmitRequest, defaults: SubmissionDefaults): Submission {
  if (!isObject(request)) throw invalid("request is required");
  if (typeof request.id !== "string" || request.id === "") throw invalid("request ID is required");
  if (!Number.isSafeInteger(request.deadline) || request.deadline <= 0)
    throw invalid("deadline is required and must be a positive Unix timestamp");
  if (request.deadline <= defaults.now) throw invalid("deadline has already expired");
  for (const name of ["endpoint", "requestQueueName", "resultQueueName"] as const)
    if (typeof (request[name] ?? "") !== "string") throw invalid(`${name} must be a string`);
  const requestQueueName = request.requestQueueName || defaults.requestQueueName;
  const resultQueueName = request.resultQueueName || defaults.resultQueueName;
  const members: readonly (readonly [string, string | undefined])[] = [
    ["id", JSON.stringify(request.id)],
    ["created", String(Math.floor(defaults.now))],
    ["deadline", String(request.deadline)],
    ["payload", payloadText(request.payload)],
    ["metadata", mapText("metadata", request.metadata)],
    ["headers", mapText("headers", request.headers)],
    ["endpoint", request.endpoint ? JSON.stringify(request.endpoint) : undefined],
    ["request_queue_name", JSON.stringify(requestQueueName)],
    ["result_queue_name", JSON.stringify(resultQueueName)],
  ];
  const text = `{${members.flatMap(([name, value]) => (value === undefined ? [] : [`"${name}":${value}`])).join(",")}}`;
  mapText("labels", request.labels);
  const routing = {
    ...NO_ROUTING,
    requestToken: defaults.token,
    requestQueueName,
    resultQueueName,
    labels: request.labels ?? {},
  };
  return {
    id: request.id,
    deadline: request.deadline,
    token: defaults.token,
    requestQueueName,
    envelope: encodeEnvelope({ routing, kind: "redis", text }),
  };
}

function payloadText(payload: unknown): string {
  if (typeof payload === "string") {
    let value: unknown;
    try {
      value = JSON.parse(payload);
    } catch (cause) {
      throw new SluiceError("REQUEST_INVALID", "payload is a string, but not valid JSON", { cause });
    }
    if (!isObject(value)) throw invalid("payload must be a JSON object");
    return payload;
  }
  if (!isObject(payload)) throw invalid("payload is required and must be an object");
  let text: string | undefined;
  try {
    text = JSON.stringify(payload);
  } catch (cause) {
    throw new SluiceError("REQUEST_INVALID", `payload cannot be written as JSON: ${messageOf(cause)}`, { cause });
  }
  // A `toJSON` method can make any value of an object; that of a date makes a text.
  if (!text?.startsWith("{")) throw invalid("payload must be a JSON object");
  return text;
}

function mapText(name: string, map: Readonly<Record<string, string>> | undefined): string | undefined {
  if (map === undefined || map === null) return undefined;
  if (!isObject(map)) throw invalid(`${name} must be an object of strings`);
  for (const [key, value] of Object.entries(map))
    if (typeof value !== "string") throw invalid(`${name}.${key} must be a string`);
  return Object.keys(map).length === 0 ? undefined : JSON.stringify(map);
}

function invalid(problem: string): SluiceError {
  return new SluiceError("REQUEST_INVALID", problem);
}
