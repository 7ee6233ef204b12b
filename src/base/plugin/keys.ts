/**
 * The name of a per-candidate column: one number per candidate, written by a producer, read by other plugins. The
 * producer's instance name keeps two instances of one type apart.
 */
export interface ColumnKey {
  readonly of: "endpoint";
  readonly name: string;
}

/** The name of a value that a producer attaches to the request, read by other plugins. `T` is the type of the value. */
export interface AttributeKey<T = unknown> {
  readonly of: "request";
  readonly name: string;
  /** Never set: this property carries the type alone. */
  readonly value?: T;
}

/** The value of any request attribute. */
export type DataKey = ColumnKey | AttributeKey;

/** Declares a column. Declare each once, beside the producer that writes it. */
export function columnKey(name: string): ColumnKey {
  return { of: "endpoint", name };
}

/** Declares a request attribute. Declare each once, beside the producer that writes it. */
export function attributeKey<T>(name: string): AttributeKey<T> {
  return { of: "request", name };
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
/**
 * Tokens per prompt block, above 0, the same for every candidate; not necessarily whole where tokens are estimated.
 * Written by `approx-prefix-cache-producer`.
 */
export const PREFIX_BLOCK_TOKENS = columnKey("prefix-block-tokens");
/**
 * Leading prompt blocks that a candidate holds by its own word, on any tier and without weights. Written by
 * `precise-prefix-cache-producer`.
 */
export const PREFIX_CACHED_BLOCKS = columnKey("prefix-cached-blocks");
/**
 * Those of them that the candidate has not announced: they are expected there, because a request was routed there. Written by
 * `precise-prefix-cache-producer`.
 */
export const PREFIX_UNCONFIRMED_BLOCKS = columnKey("prefix-unconfirmed-blocks");
/**
 * When a candidate last took a prompt that no endpoint had cached: 0 = never, else its place among all that did, 1 = longest
 * ago. Written by `no-hit-lru-producer`.
 */
export const COLD_USE_ORDER = columnKey("cold-use-order");
/** 1 for the candidate the request's session is bound to, else 0. Written by `session-affinity-producer`. */
export const SESSION_BOUND = columnKey("session-bound");

/**
 * Where a candidate runs: numbers that are equal for equal places within one decision; 0 = unknown. Written by
 * `topology-extractor`.
 */
export const TOPOLOGY_HOST = columnKey("topology-host");
export const TOPOLOGY_RACK = columnKey("topology-rack");
export const TOPOLOGY_ZONE = columnKey("topology-zone");
export const TOPOLOGY_REGION = columnKey("topology-region");
/** Images, sounds and videos of the request that a candidate has probably encoded. Written by `mm-embeddings-cache-producer`. */
export const MEDIA_MATCHED_ITEMS = columnKey("media-matched-items");
/** Those of the request, the same for every candidate. Written by `mm-embeddings-cache-producer`. */
export const MEDIA_TOTAL_ITEMS = columnKey("media-total-items");

/** The session a request belongs to. Written by `session-id-producer`. */
export const SESSION_ID = attributeKey<string>("session-id");
/** The prompt as tokens. Written by `token-producer`. */
export const TOKENIZED_PROMPT = attributeKey<TokenizedPrompt>("tokenized-prompt");

/** A prompt as tokens: 32-bit little-endian numbers, one behind the other. */
export interface TokenizedPrompt {
  readonly tokens: Uint8Array;
  /** One entry per prompt: its range in `tokens`, in bytes. */
  readonly prompts: readonly { readonly start: number; readonly end: number }[];
  /** Tokens of all prompts together. */
  readonly count: number;
  /**
   * Where `tokens` holds text, packed four bytes to a number, instead of tokens: how many numbers stand for `count` tokens.
   * Absent = each number is a token.
   */
  readonly units?: number;
  /** Images, videos and sounds, in the order of their places, none over another. Absent = none, or the backend knows no places. */
  readonly media?: readonly MediaSpan[];
}

/** The place of an image, a video or a sound among the tokens of a prompt. `tokens` holds made-up tokens there. */
export interface MediaSpan {
  /** Which prompt. */
  readonly prompt: number;
  /** The first token of the prompt that stands for it. */
  readonly offset: number;
  /** The tokens that the engine sees there. */
  readonly tokens: Uint32Array;
  /** The engine's hash of its content. */
  readonly hash: string;
}
