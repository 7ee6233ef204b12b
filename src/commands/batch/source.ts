import type { ShownPace } from "../../async/batch-api/batch-pace.ts";
import { isOpen, STATUSES } from "../../async/batch-api/batch-status.ts";
import type { BatchProblem } from "../../async/batch-api/records.ts";

/** A batch as the command shows it. Times are Unix seconds. */
export interface ShownBatch {
  readonly id: string;
  /** The name of the caller; undefined where the source does not tell. */
  readonly caller: string | undefined;
  readonly status: string;
  readonly endpoint: string;
  readonly createdAt: number;
  /** The deadline; undefined = the server tells none. */
  readonly expiresAt: number | undefined;
  readonly total: number;
  readonly completed: number;
  readonly failed: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly inputFile: string;
  readonly outputFile: string | undefined;
  readonly errorFile: string | undefined;
  readonly problems: readonly BatchProblem[];
  /** Undefined where the batch has ended, or nobody tells. */
  readonly pace: ShownPace | undefined;
  /** What holds the batch up; undefined = nothing. */
  readonly problem: string | undefined;
}

/** Whether lines may go to the model servers. */
export interface ShownGate {
  readonly state: string;
  readonly reason: string;
}

/** A list of batches, the newest first; in a folder the open ones first. */
export interface ShownBatches {
  readonly batches: readonly ShownBatch[];
  readonly hasMore: boolean;
  /** Undefined where the source does not tell. */
  readonly gate: ShownGate | undefined;
}

/** Where batches are shown from: a server, or the folder of one on this machine. */
export interface BatchSource {
  /** @param limit 1 to 100 @throws SluiceError BATCH_API_..., BATCH_STORE */
  list(limit: number): Promise<ShownBatches>;
  /** @throws SluiceError BATCH_API_REFUSED where there is no such batch, and as `list` */
  get(id: string): Promise<{ readonly batch: ShownBatch; readonly gate: ShownGate | undefined }>;
  /** @returns the status afterwards @throws SluiceError BATCH_API_REFUSED where it has ended, and as `list` */
  cancel(id: string): Promise<string>;
  close(): void;
}

const ENDED: readonly string[] = STATUSES.filter((status) => !isOpen(status));

/** Whether the batch has not ended. A status that only another server knows is not an end. */
export function isRunning({ status }: Pick<ShownBatch, "status">): boolean {
  return !ENDED.includes(status);
}
