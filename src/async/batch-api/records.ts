import type { BatchStatus } from "./batch-status.ts";

/** What a file is for: what a client uploads, or what a batch writes. */
export type FilePurpose = "batch" | "batch_output";

/** A file of a caller. Times are Unix seconds. */
export interface StoredFile {
  readonly id: string;
  /** Id of the caller; "" where clients need no key. */
  readonly owner: string;
  readonly purpose: FilePurpose;
  readonly filename: string;
  readonly bytes: number;
  readonly createdAt: number;
  /** When it is removed. */
  readonly expiresAt: number;
}

/** Why a batch failed: one entry of `errors.data`. */
export interface BatchProblem {
  readonly code: string;
  /** Of the input, from 1; null = of the batch as a whole. */
  readonly line: number | null;
  readonly message: string;
  readonly param: string | null;
}

/** What is counted while a batch runs. */
export interface BatchCounts {
  /** Lines with an answer that reports success. */
  readonly completed: number;
  /** Lines with an error. */
  readonly failed: number;
  /** Of these the lines that the deadline, or the end of the batch by its caller, left without an answer. */
  readonly unanswered: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
}

export const NO_COUNTS: BatchCounts = {
  ...{ completed: 0, failed: 0, unanswered: 0 },
  ...{ inputTokens: 0, cachedTokens: 0, outputTokens: 0, reasoningTokens: 0 },
};

/** What a running batch tells about its progress besides the counts. */
export interface BatchPace {
  /** Lines in the queue or at the model servers. */
  readonly underWay: number;
  /** Lines with an answer, per second over the last minute. */
  readonly rate: number;
  /** What holds the batch up; "" = nothing. */
  readonly problem: string;
}

/** A caller as a batch keeps it: the rights of its key at the time when it made the batch. */
export interface BatchCaller {
  readonly id: string;
  readonly name: string;
  readonly models?: readonly string[] | undefined;
  readonly objective?: string | undefined;
  readonly priority?: number | undefined;
  readonly fairnessId?: string | undefined;
}

/** A batch as its caller asks for it. */
export interface NewBatch {
  readonly caller: BatchCaller;
  readonly endpoint: string;
  readonly inputFileId: string;
  /** As the caller wrote it, such as "24h". */
  readonly completionWindow: string;
  /** Seconds. */
  readonly windowSeconds: number;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  /** Seconds after the end for which the files of the batch are kept; undefined = as long as every file. */
  readonly outputSeconds: number | undefined;
}

/** A batch. Times are Unix seconds; null = the batch never reached that status. */
export interface StoredBatch extends BatchCounts, BatchPace {
  readonly id: string;
  readonly owner: string;
  readonly caller: BatchCaller;
  readonly status: BatchStatus;
  readonly endpoint: string;
  readonly inputFileId: string;
  readonly completionWindow: string;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  readonly outputSeconds: number | undefined;
  readonly createdAt: number;
  /** The deadline. */
  readonly expiresAt: number;
  /** When it reached each status. */
  readonly reached: Readonly<Partial<Record<BatchStatus, number>>>;
  readonly problems: readonly BatchProblem[];
  /** Lines of the input; 0 until they are validated. */
  readonly total: number;
  /** Lines up to this one may be in the queue; later ones are not. */
  readonly submitted: number;
  /** The queue of its lines: one of a fixed number. */
  readonly lane: number;
  /** Ids of the files with answers and errors, which exist from the end of the batch on where they are not empty. */
  readonly outputFileId: string;
  readonly errorFileId: string;
  /** Which of these two are files that the caller can read. */
  readonly hasOutput: boolean;
  readonly hasErrors: boolean;
}

/** What one caller may keep, and all callers together. */
export interface BatchLimits {
  /** Bytes of one uploaded file. */
  readonly fileBytes: number;
  /** Bytes of all files of one caller, those of answers included. */
  readonly callerBytes: number;
  readonly callerFiles: number;
  /** Open batches. */
  readonly callerBatches: number;
  readonly allBatches: number;
  /** Lines of one batch. */
  readonly lines: number;
  /** Seconds: the shortest and the longest completion window. */
  readonly shortestWindow: number;
  readonly longestWindow: number;
  /** Seconds for which files, and batches that have ended, are kept. */
  readonly keep: number;
}

export const DEFAULT_BATCH_LIMITS: BatchLimits = {
  fileBytes: 1024 ** 3,
  callerBytes: 10 * 1024 ** 3,
  callerFiles: 1000,
  callerBatches: 50,
  allBatches: 1000,
  lines: 5_000_000,
  shortestWindow: 1,
  longestWindow: 30 * 86_400,
  keep: 30 * 86_400,
};
