import { ApiError } from "./api-error.ts";
import type { RequestRecord } from "./request-log.ts";

/** A JSON object that a client sent. */
export type JsonObject = Readonly<Record<string, unknown>>;

/**
 * The one JSON object a body must hold. Bytes behind it are noted in the record, and whether they repeat it.
 * @throws ApiError 400 for anything else
 */
export function parseJsonBody(bytes: Buffer, record: RequestRecord): JsonObject {
  const text = bytes.toString("utf8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const end = endOfObject(text);
    if (end >= 0 && isJson(text.slice(0, end))) {
      record.trailingBytes = true;
      record.repeatedDocument = text.slice(end).trim().startsWith(text.slice(0, end).trim());
      throw new ApiError(
        400,
        `InvalidRequest: trailing data, ${text.length - end} characters behind the JSON document`,
      );
    }
    throw new ApiError(400, `The body is not valid JSON: ${(error as Error).message.slice(0, 200)}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new ApiError(400, "The body must be a JSON object");
  }
  return value as JsonObject;
}

/** Index behind the object that `text` starts with; -1 when it starts with none or the object has no end. */
function endOfObject(text: string): number {
  let at = 0;
  while (at < text.length && " \t\r\n".includes(text[at]!)) at++;
  if (text[at] !== "{") return -1;
  let depth = 0;
  let inString = false;
  for (; at < text.length; at++) {
    const char = text[at];
    if (inString) {
      if (char === "\\") at++;
      else if (char === '"') inString = false;
    } else if (char === '"') {
      inString = true;
    } else if (char === "{" || char === "[") {
      depth++;
    } else if ((char === "}" || char === "]") && --depth === 0) {
      return at + 1;
    }
  }
  return -1;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
