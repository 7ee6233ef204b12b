/** Why an event, or a part of it, says nothing that helps. */
export type SkipReason =
  | "unsupported_cache_kind"
  | "unknown_group"
  | "invalid_block_size"
  | "non_dense_block_span"
  | "unknown_parent"
  | "unknown_blocks"
  | "too_many_sources"
  | "too_many_block_sizes";

/** What happened to KV events, since the start. Numbers only grow. */
export class EventCounts {
  /** Blocks that came into the index. */
  admissions = 0;
  /** Blocks that engines took back. */
  evictions = 0;
  /** Removed hashes that another announcement still holds. */
  suppressed = 0;
  /** Removed hashes that nothing holds any more. */
  forwarded = 0;
  /** Lookups of prompts. */
  lookups = 0;
  /** The longest chains of all lookups together, in blocks. */
  maxHits = 0;
  /** Lookups with at least one block. */
  hits = 0;
  readonly #skipped = new Map<string, SkippedEvents>();

  /** An event that says nothing that helps. @param kind of attention, one of a few names */
  skipped(what: "stores" | "removals", kind: string, reason: SkipReason): void {
    const key = `${what} ${kind} ${reason}`;
    const entry = this.#skipped.get(key);
    if (entry === undefined) this.#skipped.set(key, { what, kind, reason, count: 1 });
    else entry.count++;
  }

  /** Skipped events by what they were and why. */
  skips(): Iterable<Readonly<SkippedEvents>> {
    return this.#skipped.values();
  }
}

interface SkippedEvents {
  readonly what: "stores" | "removals";
  readonly kind: string;
  readonly reason: SkipReason;
  count: number;
}
