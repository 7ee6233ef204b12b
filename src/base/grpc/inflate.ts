import { gunzipSync } from "node:zlib";
import { GRPC_STATUS } from "./status.ts";

/** Output is gathered in pieces of this size; bigger ones pay for bigger messages only. */
const SMALL_CHUNK = 16 * 1024;
const LARGE_CHUNK = 64 * 1024;

/** How a call ends whose message cannot be inflated. */
export interface InflateFault {
  readonly status: number;
  readonly text: string;
}

/**
 * The content of a message whose compressed flag is set. On the event loop: a kilobyte takes an eighth of the time that a
 * trip to a worker thread does, messages stay in order, and at most one message's worth of memory is at stake however many
 * calls send bombs at once (64 MiB of zeros take 30 ms).
 * @param encoding what the call announced as `grpc-encoding`
 * @param limit the largest content in bytes
 */
export function inflate(message: Uint8Array, encoding: "identity" | "gzip", limit: number): Buffer | InflateFault {
  if (encoding === "identity")
    return {
      status: GRPC_STATUS.internal,
      text: "a message is marked as compressed but the call names no grpc-encoding",
    };
  try {
    const chunkSize = message.length < SMALL_CHUNK ? SMALL_CHUNK : LARGE_CHUNK;
    return gunzipSync(message, { maxOutputLength: limit, chunkSize });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE")
      return { status: GRPC_STATUS.resourceExhausted, text: `a message inflates beyond the limit of ${limit} bytes` };
    return { status: GRPC_STATUS.internal, text: "a message marked as compressed is not valid gzip" };
  }
}
