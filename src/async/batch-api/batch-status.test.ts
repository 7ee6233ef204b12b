import { describe, expect, it } from "vitest";
import { type BatchStatus, isOpen, NEXT_STATUS, OPEN_STATUSES, STATUSES, statusesBefore } from "./batch-status.ts";

describe("the statuses of a batch", () => {
  it("all follow from validating, and the last ones lead nowhere", () => {
    const reached = new Set<BatchStatus>(["validating"]);
    for (const status of reached) for (const next of NEXT_STATUS[status]) reached.add(next);
    expect([...reached].sort()).toEqual([...STATUSES].sort());
    expect(STATUSES.filter((status) => !isOpen(status))).toEqual(["failed", "completed", "expired", "cancelled"]);
    expect(OPEN_STATUSES).toEqual(["validating", "in_progress", "finalizing", "cancelling"]);
  });

  it("have an inverse table", () => {
    expect(statusesBefore("cancelling")).toEqual(["validating", "in_progress"]);
    expect(statusesBefore("completed")).toEqual(["finalizing"]);
    expect(statusesBefore("validating")).toEqual([]);
  });
});
