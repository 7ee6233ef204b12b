/**
 * The name of a per-request column: one number per candidate, written by a producer, read by scorers. The producer's
 * instance name keeps two instances of one type apart.
 */
export interface ColumnKey {
  readonly name: string;
}

/** Declares a column. Declare each once, beside the producer that writes it. */
export function columnKey(name: string): ColumnKey {
  return { name };
}

/** In-flight requests of this process per candidate. Written by `inflight-load-producer`. */
export const IN_FLIGHT_REQUESTS = columnKey("in-flight-requests");
/** Tokens in flight per candidate, not expected in its prefix cache. Written by `inflight-load-producer`. */
export const IN_FLIGHT_TOKENS = columnKey("in-flight-tokens");
/** Prompt tokens of this request a candidate would have to compute. Written by `inflight-load-producer`. */
export const UNCACHED_TOKENS = columnKey("uncached-tokens");
/** Leading prompt blocks a candidate is believed to hold. Written by `approx-prefix-cache-producer`. */
export const PREFIX_MATCHED_BLOCKS = columnKey("prefix-matched-blocks");
/** Blocks of the whole prompt, the same for every candidate. Written by `approx-prefix-cache-producer`. */
export const PREFIX_TOTAL_BLOCKS = columnKey("prefix-total-blocks");
/** Tokens per prompt block, the same for every candidate. Written by `approx-prefix-cache-producer`. */
export const PREFIX_BLOCK_TOKENS = columnKey("prefix-block-tokens");
/**
 * When a candidate last took a prompt that nobody held: 0 = never, else its place among all that did, 1 = longest ago.
 * Written by `no-hit-lru-producer`.
 */
export const COLD_USE_ORDER = columnKey("cold-use-order");
/** 1 for the candidate the request's session is bound to, else 0. Written by `session-affinity-producer`. */
export const SESSION_BOUND = columnKey("session-bound");
