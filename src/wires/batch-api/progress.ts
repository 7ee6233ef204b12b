import { paceOf } from "../../async/batch-api/batch-pace.ts";
import { isOpen } from "../../async/batch-api/batch-status.ts";
import type { GateState } from "../../async/batch-api/batch-store.ts";
import type { StoredBatch } from "../../async/batch-api/records.ts";

/** What a client sees of the progress of its batch. OpenAI's API has no such object, so it is apart from the batch. */
export interface BatchProgressObject {
  readonly id: string;
  readonly object: "batch.progress";
  readonly status: string;
  readonly request_counts: { readonly total: number; readonly completed: number; readonly failed: number };
  readonly under_way: number;
  readonly lines_per_second: number;
  readonly eta_seconds: number | null;
  readonly makes_deadline: boolean | null;
  readonly gate: { readonly state: string; readonly reason: string };
  readonly problem: string | null;
}

/** @param gate undefined = the process is starting @param now Unix seconds */
export function progressObject(batch: StoredBatch, gate: GateState | undefined, now: number): BatchProgressObject {
  const { id, status, total, completed, failed } = batch;
  const { underWay, linesPerSecond, etaSeconds, makesIt } = paceOf(batch, now);
  return {
    ...{ id, object: "batch.progress", status, request_counts: { total, completed, failed } },
    ...{ under_way: underWay, lines_per_second: linesPerSecond, eta_seconds: etaSeconds, makes_deadline: makesIt },
    gate: { state: gate?.state ?? "unknown", reason: reasonOf(gate) },
    // The text of the problem may name files of the server.
    problem:
      isOpen(status) && batch.problem !== "" ? "the server cannot work on the batch now; its log has the reason" : null,
  };
}

/** Why lines go or do not, without addresses of the server. */
function reasonOf(gate: GateState | undefined): string {
  switch (gate?.state) {
    case undefined:
      return "the server is starting";
    case "none":
      return "Sluice sends a line when a worker is free";
    case "open":
      return `${shareOf(gate.budget)} of the model servers is free, more than the ${shareOf(gate.baseline)} kept free for other requests`;
    case "closed":
      return `${shareOf(gate.budget)} of the model servers is free, but ${shareOf(gate.baseline)} must stay free for other requests`;
    case "latched":
      return "the model servers were overloaded a moment ago";
    case "unknown":
    case "unreadable":
      return "the server does not know the load of the model servers now";
  }
}

function shareOf(share: number | null): string {
  return share === null ? "an unknown part" : `${Math.round(100 * Math.max(0, share))} %`;
}
