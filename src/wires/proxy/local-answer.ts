import { STATUS_CODES } from "node:http";
import { type Random, uuidFrom } from "../../base/clock/random.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { ERRORS_PAGE } from "../../base/inference/errors.ts";
import { HEADER, type HeaderList } from "../../base/inference/headers.ts";
import type { OutcomeReason, Rejection } from "../../base/inference/outcomes.ts";
import { type ApiShape, errorEvent } from "./api-shapes.ts";
import type { BadRequest } from "./bad-request.ts";
import { flat } from "./response-head.ts";

/** An answer that the proxy itself gives, in the shape that OpenAI clients understand (envoy-data-plane 4.4). */
export interface LocalAnswer {
  readonly status: number;
  /** Name, value, name, value; without the headers that frame the message. */
  readonly headers: readonly string[];
  readonly body: Buffer;
}

/** The `error.type` of outcomes whose status does not determine it. */
const TYPES: Partial<Record<OutcomeReason, string>> = {
  upstream_connect: "upstream_error",
  upstream_reset: "upstream_error",
  upstream_timeout: "upstream_error",
  // The servers are full. A limit of the client is something else.
  saturated: "overloaded_error",
  no_target: "overloaded_error",
  evicted: "overloaded_error",
  evicted_queue_pressure: "overloaded_error",
  evicted_priority: "overloaded_error",
  ttl_expired: "overloaded_error",
  // OpenAI names the limit here.
  rate_limited_requests: "requests",
  rate_limited_in_flight: "requests",
  rate_limited_tokens: "tokens",
  over_token_limit: "tokens",
};

/** The legal values of a header. An illegal id must not make the answer fail. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]+$/;

/** The `error.code` of outcomes for which OpenAI clients expect a word; of all others it is the status. */
const CODES: Partial<Record<OutcomeReason, string>> = {
  key_missing: "invalid_api_key",
  key_invalid: "invalid_api_key",
  key_expired: "invalid_api_key",
  key_revoked: "invalid_api_key",
  model_not_found: "model_not_found",
  model_not_allowed: "model_not_found",
  rate_limited_requests: "rate_limit_exceeded",
  rate_limited_in_flight: "rate_limit_exceeded",
  rate_limited_tokens: "rate_limit_exceeded",
  over_token_limit: "request_over_token_limit",
};

/** Seconds after which an endpoint that is down was tried again: its longest back-off. */
const RETRY_AFTER = 5;

function typeOf(status: number): string {
  return status < 500 ? "invalid_request_error" : "server_error";
}

/** The heading of that page for requests that opened no exchange. */
const BAD_HTTP = "bad-http-requests";

/**
 * The error object of every local answer and of the last event of a broken stream.
 * @param anchor the heading of the errors page that explains it
 */
function errorObject(message: string, type: string, code: number | string, anchor: string) {
  return { message, type, param: null, code, help: `${ERRORS_PAGE}#${anchor}` };
}

interface Answer {
  readonly status: number;
  /** The value of `x-gateway-error`. */
  readonly slug: string;
  /** The heading of the errors page. */
  readonly anchor: string;
  readonly message: string;
  readonly type: string;
  readonly code: number | string;
  readonly requestId: string;
  /** Further headers: name, value, name, value. */
  readonly more: readonly string[];
}

function localAnswer({ status, slug, anchor, message, type, code, requestId, more }: Answer): LocalAnswer {
  const body = Buffer.from(JSON.stringify({ error: errorObject(message, type, code, anchor) }));
  const headers = [
    "content-type",
    "application/json",
    "content-length",
    String(body.length),
    "x-gateway-error",
    slug,
    ...(HEADER_VALUE.test(requestId) ? [HEADER.requestId, requestId] : []),
    ...more,
  ];
  return { status, headers, body };
}

/** The value of `x-gateway-error` for a rejection. */
export function rejectionSlug(rejection: Rejection): string {
  return rejection.reason === "no_endpoints" ? "no-endpoint" : rejection.reason.replaceAll("_", "-");
}

/**
 * The answer to a refused exchange; status and dropped-reason header are those of the outcome table.
 * @param requestId the id of the request in logs and decision records
 * @param more further headers of the answer
 */
export function rejectionAnswer(rejection: Rejection, requestId: string, more?: HeaderList): LocalAnswer {
  const { reason, status } = rejection;
  const type = TYPES[reason] ?? typeOf(status);
  const slug = rejectionSlug(rejection);
  const headers = [...(rejection.droppedHeader ?? []), ...(more === undefined ? [] : flat(more))];
  const retryAfter = rejection.retryAfter ?? (reason === "upstream_connect" ? RETRY_AFTER : undefined);
  if (retryAfter !== undefined) headers.push("retry-after", String(retryAfter));
  // RFC 9110 11.6.1: a 401 names the scheme.
  if (status === 401) headers.push("www-authenticate", "Bearer");
  const code = CODES[reason] ?? status;
  return localAnswer({ status, slug, anchor: reason, message: rejection.plain, type, code, requestId, more: headers });
}

/**
 * An answer of the gateway itself to a request that no model server needs; undefined = the request opens an exchange.
 * @param client each read of its id may make a new one; `answerId` gives the id of a refusal, which then is in the log of requests
 */
export type OwnAnswer = (
  head: { readonly method: string; readonly path: string; readonly headers?: HeaderList },
  client: { readonly requestId: string; answerId(refusal: Rejection): string },
  caller?: Caller,
) => LocalAnswer | undefined;

/** The answer 200 with a document. @param requestId see `requestIdOf` */
export function jsonAnswer(document: object, requestId: string): LocalAnswer {
  const body = Buffer.from(JSON.stringify(document));
  const id = HEADER_VALUE.test(requestId) ? [HEADER.requestId, requestId] : [];
  const headers = ["content-type", "application/json", "content-length", String(body.length), ...id];
  return { status: 200, headers, body };
}

/** The answer to a request that opened no exchange. @param requestId see `requestIdOf` */
export function badRequestAnswer(bad: BadRequest, requestId: string): LocalAnswer {
  const { status, slug, message } = bad;
  return localAnswer({
    status,
    slug,
    anchor: BAD_HTTP,
    message,
    type: typeOf(status),
    code: status,
    requestId,
    more: [],
  });
}

/**
 * The id of a request that opened no exchange: the client's id, else a new one. With it, a reader can tell two reports of one
 * answer from two answers.
 * @param headers name, value, name, value as they arrived; undefined when no header was readable
 */
export function requestIdOf(headers: readonly string[] | undefined, random: Random): string {
  let id = "";
  for (let i = 0; headers !== undefined && i < headers.length; i += 2)
    if (headers[i]!.toLowerCase() === HEADER.requestId) id = headers[i + 1]!;
  return id || uuidFrom(random);
}

/** The bytes of an answer that closes its connection, for a socket without a response object. */
export function rawAnswer(answer: LocalAnswer): Buffer {
  let head = `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? "Error"}\r\n`;
  for (let i = 0; i < answer.headers.length; i += 2) head += `${answer.headers[i]}: ${answer.headers[i + 1]}\r\n`;
  return Buffer.concat([Buffer.from(`${head}connection: close\r\n\r\n`, "latin1"), answer.body]);
}

/**
 * The event that the client of an event stream gets in place of the last one when the model server is lost.
 * @param tail the last bytes that the client got; an event that they leave open is ended first
 */
export function lastEvent(tail: Uint8Array, detail: string, shape: ApiShape = "openai"): Buffer {
  const message = `the model server was lost in the middle of the answer: ${detail}`;
  const end = Buffer.from(tail.subarray(-4)).toString("latin1");
  const gap = tail.length === 0 || end.endsWith("\n\n") || end.endsWith("\r\n\r\n") ? "" : "\n\n";
  const error = errorObject(message, "upstream_error", 502, "upstream_reset");
  return Buffer.from(gap + errorEvent(shape, error, 502));
}
