/** The status of a batch, by the names of OpenAI's API. */
export type BatchStatus =
  | "validating"
  | "failed"
  | "in_progress"
  | "finalizing"
  | "completed"
  | "expired"
  | "cancelling"
  | "cancelled";

/**
 * The statuses that may follow each status. `in_progress` leads to `finalizing` also when the deadline has passed: the lines
 * without an answer then get an error, and the batch ends as `expired`.
 */
export const NEXT_STATUS: Readonly<Record<BatchStatus, readonly BatchStatus[]>> = {
  validating: ["failed", "in_progress", "cancelling"],
  in_progress: ["finalizing", "cancelling"],
  finalizing: ["completed", "expired"],
  cancelling: ["cancelled"],
  failed: [],
  completed: [],
  expired: [],
  cancelled: [],
};

export const STATUSES = Object.keys(NEXT_STATUS) as readonly BatchStatus[];

/** The statuses in which work is left. */
export const OPEN_STATUSES: readonly BatchStatus[] = STATUSES.filter((status) => NEXT_STATUS[status].length > 0);

export function isOpen(status: BatchStatus): boolean {
  return NEXT_STATUS[status].length > 0;
}

/** The statuses from which a batch may get to `to`. */
export function statusesBefore(to: BatchStatus): readonly BatchStatus[] {
  return STATUSES.filter((from) => NEXT_STATUS[from].includes(to));
}
