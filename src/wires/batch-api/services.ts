import type { Batches } from "../../async/batch-api/batches.ts";
import type { BatchCaller, BatchLimits } from "../../async/batch-api/records.ts";
import type { Clock } from "../../base/clock/clock.ts";

/** What the routes of the Batch API share. */
export interface BatchApiServices {
  readonly store: Batches;
  readonly limits: BatchLimits;
  readonly clock: Clock;
  /** Batches are new or cancelled. */
  wake(): void;
  /** Receives errors of Sluice, which the client sees as 500. */
  onError(error: unknown): void;
}

/** What a request brings besides itself. */
export interface ApiBindings {
  readonly Bindings: { readonly caller: BatchCaller };
}

/** The caller of requests where clients need no key. */
export const EVERYBODY: BatchCaller = { id: "", name: "" };
