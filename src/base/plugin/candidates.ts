import type { Endpoint } from "../inference/endpoint.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { AttributeKey, ColumnKey } from "./keys.ts";

/**
 * The candidates of one decision as parallel columns, `count` entries each (the arrays are reused and may be longer).
 * A metric that is missing or stale holds the worst known value of its column; a column nobody knows holds NaN
 * throughout, and must score the same for all.
 */
export interface Candidates {
  readonly count: number;
  /** Monotonic milliseconds of the decision: what ages are measured against. */
  readonly now: number;
  readonly endpoints: readonly Endpoint[];
  readonly waiting: Float64Array;
  readonly running: Float64Array;
  readonly kvUsage: Float64Array;
  /** 1 where the endpoint's own metrics can be believed, else 0: for what a scorer reads from them directly. */
  readonly fresh: Uint8Array;
  /** A column that a producer wrote for this request. @throws SluiceError DATA_UNDECLARED for a key the plugin does not declare */
  column(key: ColumnKey): Float64Array;
  /** As `column`, but undefined when no producer writes it: for keys in `optional`. */
  optionalColumn(key: ColumnKey): Float64Array | undefined;
}

/** What every plugin that takes part in a decision may look at. */
export interface DecisionContext {
  readonly request: InferenceRequest;
  readonly candidates: Candidates;
  /**
   * What a producer attached to the request; undefined when it attached nothing, or when no producer writes the key.
   * @throws SluiceError DATA_UNDECLARED for a key that the plugin neither requires nor reads optionally
   */
  attribute<T>(key: AttributeKey<T>): T | undefined;
}
