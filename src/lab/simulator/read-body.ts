import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { ApiError } from "./api-error.ts";
import type { RequestRecord } from "./request-log.ts";

/**
 * Reads a request body to its end and notes length and digest in the record.
 * @param limit bytes
 * @returns the body, or undefined when the client went away first
 * @throws ApiError 413 as soon as the body is known to be longer; the rest of it is read and thrown away, so that the
 * client gets to read the answer
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
      reject(new ApiError(413, `The body is longer than ${limit} bytes`));
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
    // An aborted request is reported by "close"; the error itself says nothing more.
    request.on("error", () => {});
  });
}
