import { HEADER, type HeaderList } from "../../base/inference/headers.ts";
import { pathOf } from "./path-pattern.ts";

/**
 * The API whose clients read an answer of the proxy. Each client library looks for the message of an error, and for the id of the
 * request, in its own place.
 */
export type ApiShape =
  /** OpenAI's chat, completions and embeddings, and every path of no other API. */
  | "openai"
  /** OpenAI's Responses: its streams have named events. */
  | "responses"
  /** Anthropic's Messages. */
  | "anthropic";

/** The header that every client of Anthropic's API sends, and the one in which it looks for the id of its request. */
export const ANTHROPIC_VERSION = "anthropic-version";
const ANTHROPIC_ID = "request-id";

const MESSAGES = /\/messages(?:\/[^?]*)?$/;

/** The shape for a request target. */
export function apiShapeOf(target: string): ApiShape {
  const path = pathOf(target);
  if (path.endsWith("/responses")) return "responses";
  return MESSAGES.test(path) ? "anthropic" : "openai";
}

/** Whether a client of Anthropic's API sends the request. @param rawHeaders name, value, name, value */
export function isAnthropic(target: string | undefined, rawHeaders: readonly string[]): boolean {
  if (apiShapeOf(target ?? "") === "anthropic") return true;
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]!.toLowerCase() === ANTHROPIC_VERSION) return true;
  return false;
}

/** The `error.type` of that API for a status. */
const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
};

function anthropicType({ type }: OwnError, status: number): string {
  if (type === "overloaded_error") return type;
  if (type === "upstream_error") return "api_error";
  return TYPES[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
}

interface OwnError {
  readonly message: string;
  readonly type: string;
  readonly param: null;
  readonly code: number | string;
  readonly help: string;
}

function anthropicError(error: OwnError, status: number, requestId: string | undefined): object {
  const { message, help } = error;
  return { type: "error", error: { type: anthropicType(error, status), message, help }, request_id: requestId ?? null };
}

/** A `LocalAnswer`, whose file imports this one. */
interface WholeAnswer {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: Buffer;
}

/** An answer of the proxy as clients of Anthropic's API read it: the shape of its errors, and its header for the id. */
export function forAnthropic(answer: WholeAnswer): WholeAnswer {
  const { status, headers } = answer;
  const id = headerIn(headers, "x-request-id");
  const more = id === undefined ? headers : [...headers, ANTHROPIC_ID, id];
  if (status < 400) return { ...answer, headers: more };
  // The proxy itself has written the body.
  const { error } = JSON.parse(answer.body.toString()) as { error: OwnError };
  const body = Buffer.from(JSON.stringify(anthropicError(error, status, id)));
  const at = more.indexOf("content-length") + 1;
  return { status, headers: more.map((text, i) => (i === at ? String(body.length) : text)), body };
}

/** Adds the id of a request to the headers of a model server's answer, where the client looks for it. */
export function addRequestId(headers: HeaderList, target: string, id: string, generated: boolean): void {
  // A client that sent no id gets the id for /debug/decisions.
  if (generated && headers.get(HEADER.requestId) === undefined) headers.add(HEADER.requestId, id);
  if (apiShapeOf(target) === "anthropic" && headers.get(ANTHROPIC_ID) === undefined) headers.add(ANTHROPIC_ID, id);
}

function headerIn(headers: readonly string[], name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (headers[i] === name) return headers[i + 1];
  return undefined;
}

/**
 * The event that reports an error in the middle of a stream.
 * @param error the error object of OpenAI's API
 */
export function errorEvent(shape: ApiShape, error: OwnError, status: number): string {
  switch (shape) {
    case "openai":
      return `data: ${JSON.stringify({ error })}\n\n`;
    case "responses": {
      // The members of OpenAI's own event, and `error`: by it some of its clients know that they must raise an exception.
      const { message, param } = error;
      return `event: error\ndata: ${JSON.stringify({ type: "error", code: String(error.code), message, param, error })}\n\n`;
    }
    case "anthropic":
      return `event: error\ndata: ${JSON.stringify(anthropicError(error, status, undefined))}\n\n`;
  }
}
