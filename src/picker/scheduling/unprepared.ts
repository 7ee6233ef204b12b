import { SluiceError } from "../../base/inference/errors.ts";

/** Why the data of a producer is missing in a decision: it came too late, too many requests waited, or its `prepare` failed. */
export type MissingReason = "late" | "limit" | "failed";

/** Stands for the value of a producer that prepared nothing, so that the record of the decision can say so. */
export class Unprepared {
  readonly reason: MissingReason;

  constructor(reason: MissingReason) {
    this.reason = reason;
  }
}

/** Returns the reason why a producer prepared nothing. @param error of its `prepare`, or of the preparation */
export function missingReason(error: unknown): MissingReason {
  const code = error instanceof SluiceError ? error.code : "";
  if (code === "PREPARE_TIMEOUT" || code === "RENDER_TIMEOUT") return "late";
  return code.endsWith("_LIMIT") || code === "BURST_FULL" ? "limit" : "failed";
}
