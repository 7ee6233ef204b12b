import { paceOf, roundedRate } from "../../async/batch-api/batch-pace.ts";
import { type BatchStatus, isOpen } from "../../async/batch-api/batch-status.ts";
import type { BatchStore } from "../../async/batch-api/batch-store.ts";
import type { StoredBatch } from "../../async/batch-api/records.ts";
import type { Clock } from "../../base/clock/clock.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { BatchesSource } from "../admin/batches-routes.ts";
import type { BatchFeed } from "../admin/feed/batches.ts";

/** The most batches of one answer. */
const SHOWN = 100;

interface BatchesParts {
  readonly store: BatchStore;
  readonly clock: Clock;
  readonly log: Logger;
  /** A batch is cancelled. */
  wake(): void;
}

/** The batches of all callers, for the page. */
export function batchesSource({ store, clock, log, wake }: BatchesParts): BatchesSource {
  return {
    feed: () => batchesFeed(store, clock),
    cancel(id) {
      const now = clock.wall() / 1000;
      const isCancelled = store.batches.cancel(id, now);
      const batch = store.batches.any(id);
      if (batch === undefined) return undefined;
      if (isCancelled) {
        log.info({ batch: id, caller: batch.caller.name }, "a batch is cancelled by the admin port");
        wake();
      }
      return { batch: feedOf(batch, now), isCancelled };
    },
  };
}

/** The batches of all callers. @throws SluiceError BATCH_STORE */
function batchesFeed(store: BatchStore, clock: Clock): ReturnType<BatchesSource["feed"]> {
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
