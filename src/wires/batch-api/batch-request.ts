import { z } from "zod";
import { BATCH_ENDPOINTS } from "../../async/batch-api/line-check.ts";
import type { BatchCaller, BatchLimits, NewBatch } from "../../async/batch-api/records.ts";
import { parseDuration } from "../../base/document/duration.ts";
import { ApiError, invalidParameter } from "./api-error.ts";

/** Bytes of the longest request to make a batch. */
const MOST_BYTES = 64 * 1024;

const SCHEMA = z.strictObject({
  input_file_id: z.string(),
  endpoint: z.enum(BATCH_ENDPOINTS),
  completion_window: z.string(),
  metadata: z
    .record(z.string().max(64), z.string().max(512))
    .refine((entries) => Object.keys(entries).length <= 16, "at most 16 entries")
    .nullish(),
  output_expires_after: z.strictObject({ anchor: z.literal("created_at"), seconds: z.int().min(3600) }).nullish(),
});

/** Reads the request to make a batch. @throws ApiError naming the parameter that is wrong */
export async function readBatchRequest(request: Request, caller: BatchCaller, limits: BatchLimits): Promise<NewBatch> {
  const parsed = SCHEMA.safeParse(await readJson(request));
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!;
    const unknown = issue.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [];
    const param = [...issue.path, ...unknown].join(".").slice(0, 200);
    throw invalidParameter(param, unknown.length > 0 ? "unknown parameter" : issue.message);
  }
  const { input_file_id, endpoint, completion_window, metadata, output_expires_after } = parsed.data;
  if (output_expires_after && output_expires_after.seconds > limits.keep)
    throw invalidParameter("output_expires_after.seconds", `files stay for at most ${limits.keep} seconds`);
  return {
    ...{ caller, endpoint, inputFileId: input_file_id, completionWindow: completion_window },
    windowSeconds: windowOf(completion_window, limits),
    metadata: metadata ?? undefined,
    outputSeconds: output_expires_after?.seconds,
  };
}

/** Seconds of a completion window such as `24h`, `30m` or `7d`. @throws ApiError */
function windowOf(text: string, { shortestWindow, longestWindow }: BatchLimits): number {
  const days = /^(\d{1,4})d$/.exec(text)?.[1];
  let seconds = Number.NaN;
  try {
    seconds = days === undefined ? parseDuration(text) / 1000 : Number(days) * 86_400;
  } catch {
    // The error below says it.
  }
  if (seconds >= shortestWindow && seconds <= longestWindow) return seconds;
  throw invalidParameter(
    "completion_window",
    `completion_window must be a duration such as "24h", from ${shortestWindow} to ${longestWindow} seconds`,
  );
}

async function readJson(request: Request): Promise<unknown> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  if (request.body !== null)
    for await (const piece of request.body as AsyncIterable<Uint8Array>) {
      size += piece.length;
      if (size > MOST_BYTES)
        throw new ApiError(413, "request_too_large", `the request has more than ${MOST_BYTES} bytes`);
      pieces.push(piece);
    }
  try {
    return JSON.parse(Buffer.concat(pieces).toString());
  } catch {
    throw new ApiError(400, "invalid_json", "the body of the request is not valid JSON");
  }
}
