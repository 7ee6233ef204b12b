import type { EventIndex } from "../prefix/event-index.ts";
import type { TokenChain } from "../prefix/token-chain.ts";
import type { BlocksRemoved, BlocksStored, KvEvent } from "./event-batch.ts";
import type { EventCounts, SkipReason } from "./event-counts.ts";
import type { Tiers } from "./tiers.ts";

/** Kinds of attention whose blocks let an engine skip the beginning of a prompt (scheduling 3.14). */
const REUSABLE_KINDS = new Set(["full_attention", "mla_attention", "sink_full_attention"]);
/** The other kinds that engines name, for the label of a counter. */
const OTHER_KINDS = new Set([
  "sliding_window",
  "sliding_window_mla",
  "mamba",
  "chunked_local_attention",
  "encoder_only_attention",
  "cross_attention",
]);
/** The most groups of one endpoint that are told apart. */
const MAX_GROUPS = 16;
/** Ranks above this are those of a liar. */
const MAX_RANK = 1024;
/**
 * The most sources, which are ranks and groups: of one endpoint, and of all for each endpoint beside a fixed number. Every block that
 * several sources hold has a bit for each source of all.
 */
const MAX_OWN_SOURCES = 32;
const SOURCES_PER_ENDPOINT = 4;
const FREE_SOURCES = 64;
/** The most block sizes of one endpoint, and of all together. A prompt is hashed for each, as far as blocks are found. */
const MAX_OWN_BLOCK_SIZES = 2;
const MAX_BLOCK_SIZES = 16;
const MAX_BLOCK_TOKENS = 2 ** 16;

/** What is known of the sources of one endpoint. */
interface Heard {
  /** Kinds of attention, by group. */
  readonly kinds: Map<number, string>;
  /** Tokens of a block; groups may differ. */
  readonly sizes: Set<number>;
  /** Those that have blocks in the index. */
  readonly sources: Set<number>;
}

export interface AnnouncementOptions {
  readonly index: EventIndex;
  readonly chain: TokenChain;
  readonly tiers: Tiers;
  readonly counts: EventCounts;
  /** Blocks were forgotten, so the index has memory to free. */
  onCleared?(): void;
}

/**
 * Writes what engines announce into the index. Each engine is believed for its own endpoint only: nothing that a publisher sends
 * changes what is known of another one.
 */
export class Announcements {
  readonly #index: EventIndex;
  readonly #chain: TokenChain;
  readonly #tiers: Tiers;
  readonly #counts: EventCounts;
  readonly #onCleared: () => void;
  /** By slot. */
  readonly #heard = new Map<number, Heard>();
  #blockSizes: readonly number[] = [];

  /** Sources of all endpoints. */
  #sources = 0;

  constructor({ index, chain, tiers, counts, onCleared = () => {} }: AnnouncementOptions) {
    this.#index = index;
    this.#chain = chain;
    this.#tiers = tiers;
    this.#counts = counts;
    this.#onCleared = onCleared;
  }

  /** The tokens per block that engines use, each once. */
  get blockSizes(): readonly number[] {
    return this.#blockSizes;
  }

  /**
   * Takes an event.
   * @param slot of the endpoint
   * @param rank data-parallel rank of the engine; -1 = it names none
   * @param model the base model of the engine
   */
  take(event: KvEvent, slot: number, rank: number, model: string): void {
    if (rank > MAX_RANK) this.#counts.skipped("stores", "unknown", "too_many_sources");
    else if (event.type === "stored") this.#store(event, slot, rank, model);
    else if (event.type === "removed") this.#remove(event, slot, rank);
    else this.clear(slot, rank);
  }

  /** Forgets an endpoint, or one rank of it. @param rank undefined = all */
  clear(slot: number, rank?: number): void {
    const heard = this.#heard.get(slot);
    if (rank === undefined) {
      this.#index.clear(slot);
      this.#heard.delete(slot);
      this.#sources -= heard?.sources.size ?? 0;
      this.#sizesChanged();
    } else {
      this.#forget(slot, sourceOf(rank, -1), heard);
      for (const group of heard?.kinds.keys() ?? []) this.#forget(slot, sourceOf(rank, group), heard);
    }
    this.#onCleared();
  }

  #forget(slot: number, source: number, heard: Heard | undefined): void {
    if (heard?.sources.delete(source) !== true) return;
    this.#sources--;
    this.#index.clear(slot, source);
  }

  /** @returns whether the source may have blocks */
  #admit(source: number, { sources }: Heard): boolean {
    if (sources.has(source)) return true;
    // Each endpoint has its first source, whatever the others do.
    const most = FREE_SOURCES + SOURCES_PER_ENDPOINT * this.#heard.size;
    if (sources.size >= MAX_OWN_SOURCES || (sources.size > 0 && this.#sources >= most)) return false;
    sources.add(source);
    this.#sources++;
    return true;
  }

  #store(event: BlocksStored, slot: number, rank: number, model: string): void {
    const heard = this.#of(slot);
    const kind = event.kind === "" ? (heard.kinds.get(event.group) ?? "") : event.kind;
    const refused = this.#whyNotStored(event, heard, kind);
    // A group keeps its kind, until an event names another one.
    if (refused !== "too_many_sources" && event.group >= 0) heard.kinds.set(event.group, labelOf(kind));
    if (refused !== undefined) {
      this.#counts.skipped("stores", labelOf(kind), refused);
      return;
    }
    if (event.tokenCount > 0 && !heard.sizes.has(event.blockSize)) {
      heard.sizes.add(event.blockSize);
      this.#sizesChanged();
    }
    const source = sourceOf(rank, event.group);
    if (!this.#admit(source, heard)) {
      this.#counts.skipped("stores", labelOf(kind), "too_many_sources");
      return;
    }
    const tier = this.#tiers.numberOf(event.tier);
    if (event.tokenCount === 0) this.#move(event, slot, source, tier);
    else if (this.#begin(event, slot, source, model)) this.#add(event, slot, source, tier);
    else this.#counts.skipped("stores", labelOf(kind), "unknown_parent");
  }

  #whyNotStored(event: BlocksStored, heard: Heard, kind: string): SkipReason | undefined {
    const { group, tokenCount, blockSize, count } = event;
    if (group >= 0) {
      if (!heard.kinds.has(group) && heard.kinds.size >= MAX_GROUPS) return "too_many_sources";
      if (!REUSABLE_KINDS.has(kind)) return "unsupported_cache_kind";
    }
    if (tokenCount === 0) return undefined;
    if (blockSize > MAX_BLOCK_TOKENS) return "invalid_block_size";
    if (tokenCount !== blockSize * count) return "non_dense_block_span";
    if (heard.sizes.has(blockSize)) return undefined;
    const isNew = !this.#blockSizes.includes(blockSize);
    if (heard.sizes.size >= MAX_OWN_BLOCK_SIZES || (isNew && this.#blockSizes.length >= MAX_BLOCK_SIZES))
      return "too_many_block_sizes";
    return undefined;
  }

  /** Puts the chain behind the parent of the first block. @returns whether the parent is known */
  #begin(event: BlocksStored, slot: number, source: number, model: string): boolean {
    if (!event.hasParent) {
      this.#chain.begin(event.adapter === "" ? model : event.adapter);
      return true;
    }
    if (!this.#index.keyOf(slot, source, event.parentLow, event.parentHigh)) return false;
    this.#chain.resume(this.#index.foundLow, this.#index.foundHigh);
    return true;
  }

  #add(event: BlocksStored, slot: number, source: number, tier: number): void {
    const { low, high, count, tokens, blockSize, extras, adapter } = event;
    const chain = this.#chain;
    const index = this.#index;
    let added = 0;
    for (let i = 0; i < count; i++) {
      const texts = extras?.[i];
      // Engines name the adapter here, too; it is part of the chain's beginning already.
      if (texts !== undefined) for (const text of texts) if (text !== adapter) chain.mixText(text);
      chain.add(tokens, i * blockSize, (i + 1) * blockSize);
      if (index.add(slot, source, tier, low[i]!, high[i]!, chain.low, chain.high)) added++;
    }
    this.#counts.admissions += added;
  }

  /** Without tokens, the engine has put blocks that it has into another tier as well. */
  #move(event: BlocksStored, slot: number, source: number, tier: number): void {
    const { low, high, count } = event;
    let known = 0;
    for (let i = 0; i < count; i++) {
      if (!this.#index.keyOf(slot, source, low[i]!, high[i]!)) continue;
      known++;
      const { foundLow, foundHigh } = this.#index;
      if (this.#index.add(slot, source, tier, low[i]!, high[i]!, foundLow, foundHigh)) this.#counts.admissions++;
    }
    if (known < count) this.#counts.skipped("stores", "unknown", "unknown_blocks");
  }

  #remove(event: BlocksRemoved, slot: number, rank: number): void {
    const { group, low, high, count } = event;
    if (group >= 0) {
      const kind = this.#heard.get(slot)?.kinds.get(group);
      if (kind === undefined || !REUSABLE_KINDS.has(kind)) {
        this.#counts.skipped(
          "removals",
          kind ?? "unknown",
          kind === undefined ? "unknown_group" : "unsupported_cache_kind",
        );
        return;
      }
    }
    const source = sourceOf(rank, group);
    const tier = this.#tiers.numberOf(event.tier);
    for (let i = 0; i < count; i++) {
      const outcome = this.#index.remove(slot, source, tier, low[i]!, high[i]!);
      if (outcome === "kept") this.#counts.suppressed++;
      else {
        this.#counts.forwarded++;
        if (outcome === "removed") this.#counts.evictions++;
      }
    }
  }

  #of(slot: number): Heard {
    let heard = this.#heard.get(slot);
    if (heard === undefined) {
      heard = { kinds: new Map(), sizes: new Set(), sources: new Set() };
      this.#heard.set(slot, heard);
    }
    return heard;
  }

  #sizesChanged(): void {
    this.#blockSizes = [...new Set([...this.#heard.values()].flatMap(({ sizes }) => [...sizes]))];
  }
}

/** Ranks and groups of one endpoint are sources of their own: a prompt must be whole in one of them. */
function sourceOf(rank: number, group: number): number {
  return (rank + 1) * 0x10000 + group + 1;
}

/** A kind as a label, and "unknown" for what no engine says. */
function labelOf(kind: string): string {
  return REUSABLE_KINDS.has(kind) || OTHER_KINDS.has(kind) ? kind : "unknown";
}
