import { isUtf8 } from "node:buffer";
import type { ResultMessage } from "../brokers/messages/message.ts";
import { isObject } from "../brokers/messages/request.ts";

/** Why a line ended without an answer of the gateway: a code of results, or one of a batch's own. */
export interface LineError {
  readonly code: string;
  readonly message: string;
}

/**
 * A line of the answers' file, in the format of OpenAI's batch API: the gateway's answer, whatever its status, is `response`;
 * what ended without one has `error`. A body that is no JSON stands there as a text, as base64 when it is no UTF-8 either.
 * @param id of the request, also sent as `x-request-id`
 */
export function answerLine(id: string, customId: string, result: ResultMessage): string {
  const response =
    result.statusCode === 0
      ? "null"
      : `{"status_code":${result.statusCode},"request_id":${JSON.stringify(id)},"body":${bodyText(result.payload)}}`;
  const error = result.errorCode === "" ? null : { code: result.errorCode, message: result.errorMessage };
  return line(id, customId, response, error);
}

/** The same for a line that was never sent. @param customId null where the line has none of its own */
export function errorLine(id: string, customId: string | null, error: LineError): string {
  return line(id, customId, "null", error);
}

/** Did the line end with an answer that says success? */
export function succeeded({ statusCode, errorCode }: ResultMessage): boolean {
  return statusCode >= 200 && statusCode < 300 && errorCode === "";
}

/** What matters of a line that is there already; undefined when it is no answer to a line of a batch. */
export interface WrittenLine {
  readonly id: string;
  readonly customId: string | null;
  readonly succeeded: boolean;
}

/** Reads what `answerLine` and `errorLine` write, and what others write in the same format. */
export function readWrittenLine(text: string): WrittenLine | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(value)) return undefined;
  const { id, custom_id: customId, response, error } = value;
  if (typeof id !== "string" || (typeof customId !== "string" && customId !== null)) return undefined;
  const status = isObject(response) ? Number(response["status_code"]) : 0;
  return { id, customId, succeeded: status >= 200 && status < 300 && (error ?? null) === null };
}

function line(id: string, customId: string | null, response: string, error: LineError | null): string {
  return `{"id":${JSON.stringify(id)},"custom_id":${JSON.stringify(customId)},"response":${response},"error":${JSON.stringify(error)}}\n`;
}

function bodyText(payload: Uint8Array): string {
  const bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
  if (!isUtf8(bytes)) return JSON.stringify(bytes.toString("base64"));
  const text = bytes.toString();
  try {
    JSON.parse(text);
  } catch {
    return JSON.stringify(text);
  }
  // Between the tokens of a JSON text a line's end is white space, and within a string there is none.
  return text.trim().replace(/[\r\n]+/g, " ");
}
