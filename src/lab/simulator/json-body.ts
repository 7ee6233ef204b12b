import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { SimApiError } from "./api-error.ts";
import type { RequestRecord } from "./request-log.ts";

/** A JSON object that a client sent. */
export type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Parses a body, which must be one JSON object. Records bytes after the object, and whether they repeat it.
 * @throws SimApiError 400 for anything else
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
      throw new SimApiError(
        400,
        `InvalidRequest: trailing data, ${text.length - end} characters behind the JSON document`,
      );
    }
    throw new SimApiError(400, `The body is not valid JSON: ${(error as Error).message.slice(0, 200)}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new SimApiError(400, "The body must be a JSON object");
  }
  return value as JsonObject;
}

/** Index after the object at the start of `text`; -1 when there is no object, or no end of it. */
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

/**
 * Reads a request body to its end and records length and digest.
 * @param limit bytes
 * @returns the body, or undefined when the client leaves first
 * @throws SimApiError 413 as soon as the body is known to be longer; the rest is read and discarded, so that the client can
 *   read the answer
 */
export function readBody(request: IncomingMessage, limit: number, record: RequestRecord): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const declared = record.declaredContentLength;
    const chunks: Buffer[] = [];
    const digest = createHash("sha256");
    const tooLong = (): void => {
      request.removeAllListeners("data");
      request.removeAllListeners("end");
      request.resume();
      chunks.length = 0;
      reject(new SimApiError(413, `The body is longer than ${limit} bytes`));
    };
    if (declared !== null && declared > limit) {
      tooLong();
      return;
    }
    request.on("data", (chunk: Buffer) => {
      record.bodyLength += chunk.length;
      if (record.bodyLength > limit) {
        tooLong();
        return;
      }
      digest.update(chunk);
      chunks.push(chunk);
    });
    request.on("end", () => {
      record.bodySha256 = digest.digest("hex");
      resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
    });
    request.on("close", () => {
      if (request.complete) return;
      record.lengthMismatch = declared !== null;
      resolve(undefined);
    });
    // "close" reports an aborted request; the error adds nothing.
    request.on("error", () => {});
  });
}
