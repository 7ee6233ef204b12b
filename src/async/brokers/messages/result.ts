import { isUtf8 } from "node:buffer";
import { isObject } from "../../../base/document/json-object.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import type { ErrorCode, ResultMessage } from "./message.ts";

/** The result of a message that got no HTTP answer (async-processor 4.4). */
export function errorResult(id: string, code: ErrorCode, message: string): ResultMessage {
  return {
    id,
    statusCode: 0,
    payload: Buffer.from(JSON.stringify({ error: message })),
    errorCode: code,
    errorMessage: message,
    contentType: "",
  };
}

/**
 * The JSON text for result consumers: zero status and empty codes are left out, `payload` is always a text. A body that is no
 * UTF-8 goes as base64, with a mark.
 */
export function encodeResult(result: ResultMessage): string {
  const text = isUtf8(result.payload);
  const body = Buffer.from(result.payload.buffer, result.payload.byteOffset, result.payload.byteLength);
  return JSON.stringify({
    id: result.id,
    status_code: result.statusCode || undefined,
    payload: body.toString(text ? "utf8" : "base64"),
    payload_encoding: text ? undefined : "base64",
    content_type: text ? undefined : result.contentType || undefined,
    error_code: result.errorCode || undefined,
    error_message: result.errorMessage || undefined,
    recovered: result.recovered || undefined,
  });
}

/** Reads a result. @throws SluiceError RESULT_INVALID */
export function parseResult(text: string): ResultMessage {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SluiceError("RESULT_INVALID", "result is not JSON", { cause });
  }
  if (!isObject(value) || typeof value["id"] !== "string" || value["id"] === "")
    throw new SluiceError("RESULT_INVALID", "result missing 'id' field");
  const payload = typeof value["payload"] === "string" ? value["payload"] : "";
  return {
    id: value["id"],
    statusCode: typeof value["status_code"] === "number" ? value["status_code"] : 0,
    payload: Buffer.from(payload, value["payload_encoding"] === "base64" ? "base64" : "utf8"),
    errorCode: typeof value["error_code"] === "string" ? (value["error_code"] as ErrorCode) : "",
    errorMessage: typeof value["error_message"] === "string" ? value["error_message"] : "",
    contentType: typeof value["content_type"] === "string" ? value["content_type"] : "",
    ...(value["recovered"] === true ? { recovered: true } : {}),
  };
}

/** As `parseResult`; undefined for a text that is no result. */
export function readResult(text: string): ResultMessage | undefined {
  try {
    return parseResult(text);
  } catch (error) {
    if (error instanceof SluiceError) return undefined;
    throw error;
  }
}
