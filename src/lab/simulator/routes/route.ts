import type { IncomingMessage, ServerResponse } from "node:http";
import type { SimContext } from "../context.ts";
import { type JsonObject, parseJsonBody } from "../json-body.ts";
import type { SimOptions } from "../options.ts";
import { readBody } from "../read-body.ts";
import type { RequestRecord } from "../request-log.ts";

/** One request as a route sees it. */
export interface Exchange {
  readonly context: SimContext;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly record: RequestRecord;
  /** The settings of the server with those of this request. */
  readonly settings: SimOptions;
  /** Query string. */
  readonly query: URLSearchParams;
}

/** Answers a request or throws an ApiError. */
export type Handler = (exchange: Exchange) => void | Promise<void>;

/**
 * The JSON object a client sent; undefined when it went away first.
 * @throws ApiError 413, or 400 when it is not one JSON object
 */
export async function jsonBody({ context, request, record }: Exchange): Promise<JsonObject | undefined> {
  const limit = context.settings.maxRequestBodySizeMb * 1024 * 1024;
  const bytes = await readBody(request, limit, record);
  return bytes && parseJsonBody(bytes, record);
}

/** Sends a JSON document. */
export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  const body = JSON.stringify(value);
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

/** Sends a text. */
export function sendText(response: ServerResponse, status: number, body: string, type = "text/plain"): void {
  response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body) });
  response.end(body);
}
