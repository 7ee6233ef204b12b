/** The answer of `/debug/batches`: the batches of the Batch API, open ones first, then the newest ended ones. */
export interface BatchesFeed {
  /** Unix milliseconds. */
  readonly at: number;
  readonly gate: BatchGateFeed;
  /** Open batches of all callers, also those that the list leaves out. */
  readonly open: number;
  /** Lines without an answer in all open batches. */
  readonly linesLeft: number;
  /** Lines that got their answer, per second over the last minute, of all batches. */
  readonly linesPerSecond: number;
  /** At most 100. */
  readonly batches: readonly BatchFeed[];
  /** Whether whoever asks may cancel batches. */
  readonly mayCancel: boolean;
}

/** The body of `POST /debug/batches/cancel`; the answer is a `BatchFeed`. */
export interface BatchCancel {
  readonly id: string;
}

/** Whether lines of batches may go to the model servers now. */
export interface BatchGateFeed {
  readonly state: "unknown" | "unreadable" | "latched" | "closed" | "open" | "none";
  /** Why, in one sentence; for `none`: that lines go without a gate. */
  readonly because: string;
  /** The free share of the servers, 0..1; null = not known. */
  readonly budget: number | null;
  /** The share that stays free for other requests, 0..1; null without a gate. */
  readonly baseline: number | null;
  /** Lines at the model servers now. */
  readonly running: number;
  /** The most lines at a time. */
  readonly workers: number;
}

/** One batch. Times are Unix seconds. */
export interface BatchFeed {
  readonly id: string;
  /** The name of the caller; "" where clients need no key. */
  readonly caller: string;
  readonly status: BatchStatusFeed;
  readonly endpoint: string;
  readonly createdAt: number;
  /** The deadline. */
  readonly expiresAt: number;
  /** When it reached its last status; null while it is open. */
  readonly endedAt: number | null;
  /** Lines of the input; 0 until they are validated. */
  readonly total: number;
  /** Lines with an answer that reports success, and with an error. */
  readonly completed: number;
  readonly failed: number;
  /** Lines in the queue or at the model servers. */
  readonly underWay: number;
  readonly linesPerSecond: number;
  /** Seconds until the last answer at this rate; null = not known, or ended. */
  readonly etaSeconds: number | null;
  /** Whether the last answer comes before the deadline at this rate; null = not known, or ended. */
  readonly makesIt: boolean | null;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** What holds it up, in one sentence, such as a full disk; null = nothing. */
  readonly problem: string | null;
}

export type BatchStatusFeed =
  | "validating"
  | "failed"
  | "in_progress"
  | "finalizing"
  | "completed"
  | "expired"
  | "cancelling"
  | "cancelled";
