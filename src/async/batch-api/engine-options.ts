import type { Clock } from "../../base/clock/clock.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { BatchQueue } from "./batch-queue.ts";
import type { Batches } from "./batches.ts";
import type { BatchLimits } from "./records.ts";

/** What all batches share. */
export interface EngineOptions {
  readonly store: Batches;
  readonly queue: BatchQueue;
  readonly limits: BatchLimits;
  /** Most lines of one batch that are queued or running at a time, >= 1. */
  readonly window: number;
  /** Whether the requests of a batch carry its id, so that the gateway knows whose they are. */
  readonly namesBatches: boolean;
  readonly clock: Clock;
  readonly log: Logger;
}
