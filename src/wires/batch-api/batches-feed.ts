import { paceOf, roundedRate } from "../../async/batch-api/batch-pace.ts";
import { type BatchStatus, isOpen } from "../../async/batch-api/batch-status.ts";
import type { Batches } from "../../async/batch-api/batches.ts";
import type { StoredBatch } from "../../async/batch-api/records.ts";
import type { Clock } from "../../base/clock/clock.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { BatchesSource } from "../admin/batches-routes.ts";
import type { BatchFeed } from "../admin/feed/batches.ts";

/** The most batches of one answer. */
const SHOWN = 100;

interface BatchesParts {
  readonly store: Batches;
  readonly clock: Clock;
  readonly log: Logger;
  /** A batch is cancelled. */
  wake(): void;
}

/** The batches of all callers, for the page. */
export function batchesSource({ store, clock, log, wake }: BatchesParts): BatchesSource {
  return {
    feed: () => batchesFeed(store, clock),
    async cancel(id) {
      const now = clock.wall() / 1000;
      const isCancelled = await store.cancel(id, now);
      const batch = await store.any(id);
      if (batch === undefined) return undefined;
      if (isCancelled) {
        log.info({ batch: id, caller: batch.caller.name }, "the admin port cancels a batch");
        wake();
      }
      return { batch: feedOf(batch, now), isCancelled };
    },
  };
}

/** The batches of all callers. @throws SluiceError of the store */
async function batchesFeed(store: Batches, clock: Clock): ReturnType<BatchesSource["feed"]> {
  const now = clock.wall();
  const [{ open, left, rate }, gate, latest] = await Promise.all([store.totals(), store.gate(), store.latest(SHOWN)]);
  return {
    at: now,
    gate: gate ?? {
      ...{ state: "unknown", because: "the process is starting", budget: null, baseline: null, running: 0, workers: 0 },
    },
    ...{ open, linesLeft: left, linesPerSecond: roundedRate(rate) },
    batches: latest.map((batch) => feedOf(batch, now / 1000)),
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
