import type { BatchStatus } from "../../async/batch-api/batch-status.ts";
import type { StoredBatch, StoredFile } from "../../async/batch-api/records.ts";

/** A file as clients see it. */
export function fileObject({ id, bytes, createdAt, expiresAt, filename, purpose }: StoredFile): object {
  return {
    ...{ id, object: "file", bytes, created_at: seconds(createdAt), expires_at: seconds(expiresAt), filename, purpose },
    status: "processed",
  };
}

/** A batch as clients see it. */
export function batchObject(batch: StoredBatch): object {
  const { inputTokens, cachedTokens, outputTokens, reasoningTokens, problems, reached } = batch;
  const at = (status: BatchStatus): number | null => seconds(reached[status]);
  return {
    ...{ id: batch.id, object: "batch", endpoint: batch.endpoint },
    errors: problems.length === 0 ? null : { object: "list", data: problems },
    ...{ input_file_id: batch.inputFileId, completion_window: batch.completionWindow, status: batch.status },
    output_file_id: batch.hasOutput ? batch.outputFileId : null,
    error_file_id: batch.hasErrors ? batch.errorFileId : null,
    created_at: seconds(batch.createdAt),
    in_progress_at: at("in_progress"),
    expires_at: seconds(batch.expiresAt),
    finalizing_at: at("finalizing"),
    completed_at: at("completed"),
    failed_at: at("failed"),
    expired_at: at("expired"),
    cancelling_at: at("cancelling"),
    cancelled_at: at("cancelled"),
    request_counts: { total: batch.total, completed: batch.completed, failed: batch.failed },
    usage: {
      input_tokens: inputTokens,
      input_tokens_details: { cached_tokens: cachedTokens },
      output_tokens: outputTokens,
      output_tokens_details: { reasoning_tokens: reasoningTokens },
      total_tokens: inputTokens + outputTokens,
    },
    metadata: batch.metadata ?? null,
  };
}

/** A part of a list as clients see it. */
export function listObject(data: readonly object[], hasMore: boolean): object {
  const idOf = (entry: object | undefined): string | null => (entry as { readonly id: string } | undefined)?.id ?? null;
  return { object: "list", data, first_id: idOf(data[0]), last_id: idOf(data.at(-1)), has_more: hasMore };
}

function seconds(time: number): number;
function seconds(time: number | undefined): number | null;
function seconds(time: number | undefined): number | null {
  return time === undefined ? null : Math.floor(time);
}
