import { paceOf, roundedRate } from "../../async/batch-api/batch-pace.ts";
import { type BatchStatus, isOpen } from "../../async/batch-api/batch-status.ts";
import type { BatchStore } from "../../async/batch-api/batch-store.ts";
import type { StoredBatch } from "../../async/batch-api/records.ts";
import type { Clock } from "../../base/clock/clock.ts";
import type { BatchesFeed, BatchFeed } from "../admin/feed/batches.ts";

/** The most batches of one answer. */
const SHOWN = 100;

/** The answer of `/debug/batches`. @throws SluiceError BATCH_STORE */
export function batchesFeed(store: BatchStore, clock: Clock): BatchesFeed {
  const now = clock.wall();
  const { open, left, rate } = store.batches.totals();
  return {
    at: now,
    gate: store.gate() ?? {
      ...{ state: "unknown", because: "the process is starting", budget: null, baseline: null, running: 0, workers: 0 },
    },
    ...{ open, linesLeft: left, linesPerSecond: roundedRate(rate) },
    batches: store.batches.latest(SHOWN).map((batch) => feedOf(batch, now / 1000)),
  };
}

/** @param now Unix seconds */
function feedOf(batch: StoredBatch, now: number): BatchFeed {
  const { id, caller, status, endpoint, total, completed, failed, inputTokens, outputTokens } = batch;
  return {
    ...{ id, caller: caller.name, status, endpoint },
    createdAt: Math.floor(batch.createdAt),
    expiresAt: Math.floor(batch.expiresAt),
    endedAt: isOpen(status) ? null : endOf(batch, status),
    ...{ total, completed, failed, inputTokens, outputTokens },
    ...paceOf(batch, now),
    problem: batch.problem || null,
  };
}

function endOf({ reached }: StoredBatch, status: BatchStatus): number | null {
  const at = reached[status];
  return at === undefined ? null : Math.floor(at);
}
