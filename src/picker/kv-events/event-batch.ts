import { MalformedPayload, PayloadReader } from "./payload-reader.ts";

/** The most bytes of a name in an event: a tier, an adapter, the hash of an image. */
const MAX_TEXT = 512;
/** The most texts beside the tokens of one block. More than one image a token is not possible with usual block sizes. */
const MAX_EXTRAS = 64;
/** The most blocks of one event, which is taken in one go. An engine announces what one step computed. */
const MAX_HASHES = 2 ** 14;
/** Memory for more tokens than this is given back after the event. */
const MAX_KEPT_TOKENS = 2 ** 18;

/** An event of an engine; one object for all events of its kind, overwritten by the next. */
export type KvEvent = BlocksStored | BlocksRemoved | AllCleared;

export interface AllCleared {
  readonly type: "cleared";
}

/** Hashes of blocks, 32 bits each; the arrays may be longer than `count`. */
interface Hashes {
  low: Int32Array;
  high: Int32Array;
  count: number;
}

export interface BlocksRemoved extends Hashes {
  readonly type: "removed";
  /** In lower case; "" where the engine names none. */
  tier: string;
  /** -1 = none. */
  group: number;
}

export interface BlocksStored extends Hashes {
  readonly type: "stored";
  /** Whether the first block follows another one, of the hash `parentLow`, `parentHigh`. */
  hasParent: boolean;
  parentLow: number;
  parentHigh: number;
  tokens: Int32Array;
  tokenCount: number;
  /** Tokens of a block. */
  blockSize: number;
  /** In lower case; "" where the engine names none. */
  tier: string;
  /** "" = the base model. */
  adapter: string;
  /** By block: hashes of images, the cache salt and the like, in the engine's order; undefined = no block has any. */
  extras: (readonly string[] | undefined)[] | undefined;
  /** Group of the hybrid cache; -1 = none. */
  group: number;
  /** The kind of attention of the group; "" where the engine says none. */
  kind: string;
}

/** What a payload says of itself. */
export interface BatchHead {
  /** Data-parallel rank; -1 where the engine names none. */
  readonly rank: number;
}

/** A place between two events of a payload. */
export interface BatchPlace {
  readonly head: BatchHead;
  readonly at: number;
  /** Events from there on. */
  readonly left: number;
}

const STORED_FIELDS = [
  "block_hashes",
  "parent_block_hash",
  "token_ids",
  "block_size",
  "lora_id",
  "medium",
  "lora_name",
  "extra_keys",
  "group_idx",
  "kv_cache_spec_kind",
  "kv_cache_spec_sliding_window",
] as const;
const REMOVED_FIELDS = ["block_hashes", "medium", "group_idx"] as const;

type StoredField = (typeof STORED_FIELDS)[number];
type RemovedField = (typeof REMOVED_FIELDS)[number];

/**
 * Reads the payloads of vLLM and SGLang (scheduling 3.14): `[time, events, rank]`, each event a list that begins with its type, or
 * maps with the names of the fields. Missing fields at the end and unknown fields are legal.
 */
export class EventBatchReader {
  readonly #reader = new PayloadReader();
  readonly #stored: BlocksStored = {
    type: "stored",
    ...emptyHashes(),
    hasParent: false,
    parentLow: 0,
    parentHigh: 0,
    tokens: new Int32Array(256),
    tokenCount: 0,
    blockSize: 0,
    tier: "",
    adapter: "",
    extras: undefined,
    group: -1,
    kind: "",
  };
  readonly #removed: BlocksRemoved = { type: "removed", ...emptyHashes(), tier: "", group: -1 };

  /**
   * Reads a payload.
   * @param onEvent called for each event, in order; the event is valid during the call only
   * @param isEnough asked after each event whether to stop there
   * @param from where an earlier call for this payload stopped; undefined = the beginning
   * @returns where it stopped; undefined = all events are read
   * @throws MalformedPayload; events before the fault have been reported
   */
  read(
    payload: Buffer,
    onEvent: (event: KvEvent, head: BatchHead) => void,
    isEnough: () => boolean = () => false,
    from?: BatchPlace,
  ): BatchPlace | undefined {
    const reader = this.#reader;
    reader.open(payload);
    const { head, at, left } = from ?? this.#begin();
    reader.at = at;
    for (let rest = from === undefined ? reader.list() : left; rest > 0; rest--) {
      const event = this.#event();
      if (event !== undefined) onEvent(event, head);
      if (rest > 1 && isEnough()) return { head, at: reader.at, left: rest - 1 };
    }
    return undefined;
  }

  /** Finds the events of a payload. */
  #begin(): BatchPlace {
    const reader = this.#reader;
    const places = { events: -1, rank: -1 };
    if (reader.isMap()) {
      for (let left = reader.map(); left > 0; left--) {
        const name = reader.text(MAX_TEXT);
        if (name === "events") places.events = reader.at;
        else if (name === "data_parallel_rank") places.rank = reader.at;
        reader.skip();
      }
    } else {
      const fields = reader.list();
      for (let i = 0; i < fields; i++) {
        if (i === 1) places.events = reader.at;
        else if (i === 2) places.rank = reader.at;
        // The usual payload has its events last: there is nothing behind them to look for.
        if (i !== fields - 1) reader.skip();
      }
    }
    if (places.events < 0) throw new MalformedPayload("a payload without events");
    return { head: { rank: this.#rankAt(places.rank) }, at: places.events, left: 0 };
  }

  #rankAt(place: number): number {
    if (place < 0) return -1;
    this.#reader.at = place;
    return this.#reader.nil() ? -1 : this.#reader.size();
  }

  /** @returns undefined for a type of event that says nothing of blocks */
  #event(): KvEvent | undefined {
    const reader = this.#reader;
    if (reader.isMap()) return this.#mapEvent();
    let left = reader.list();
    if (left === 0) throw new MalformedPayload("an event without type");
    const type = this.#text();
    left--;
    this.#reset(type);
    if (type === "BlockStored")
      for (let i = 0; i < STORED_FIELDS.length && left > 0; i++, left--) this.#storedField(STORED_FIELDS[i]!);
    else if (type === "BlockRemoved")
      for (let i = 0; i < REMOVED_FIELDS.length && left > 0; i++, left--) this.#removedField(REMOVED_FIELDS[i]!);
    for (; left > 0; left--) reader.skip();
    return this.#made(type);
  }

  #mapEvent(): KvEvent | undefined {
    const reader = this.#reader;
    const start = reader.at;
    let type = "";
    const pairs = reader.map();
    // The type may come last.
    for (let left = pairs; left > 0; left--) {
      if (this.#text() === "type") type = this.#text();
      else reader.skip();
    }
    if (type !== "BlockStored" && type !== "BlockRemoved") return this.#made(type);
    const end = reader.at;
    reader.at = start;
    reader.map();
    this.#reset(type);
    for (let left = pairs; left > 0; left--) {
      const name = this.#text();
      if (type === "BlockStored" && isOneOf(STORED_FIELDS, name)) this.#storedField(name);
      else if (type === "BlockRemoved" && isOneOf(REMOVED_FIELDS, name)) this.#removedField(name);
      else reader.skip();
    }
    reader.at = end;
    return this.#made(type);
  }

  #reset(type: string): void {
    if (type === "BlockStored") this.#resetStored();
    else if (type === "BlockRemoved") this.#resetRemoved();
  }

  /** Returns the event whose fields were read. */
  #made(type: string): KvEvent | undefined {
    if (type === "BlockStored") return this.#checked();
    if (type === "BlockRemoved") return this.#removed;
    return type === "AllBlocksCleared" ? { type: "cleared" } : undefined;
  }

  #checked(): BlocksStored {
    const stored = this.#stored;
    if (stored.blockSize <= 0 && stored.tokenCount > 0) throw new MalformedPayload("blocks without a size");
    return stored;
  }

  #resetStored(): void {
    const stored = this.#stored;
    if (stored.tokens.length > MAX_KEPT_TOKENS) stored.tokens = new Int32Array(256);
    stored.count = 0;
    stored.hasParent = false;
    stored.tokenCount = 0;
    stored.blockSize = 0;
    stored.tier = "";
    stored.adapter = "";
    stored.extras = undefined;
    stored.group = -1;
    stored.kind = "";
  }

  #resetRemoved(): void {
    this.#removed.count = 0;
    this.#removed.tier = "";
    this.#removed.group = -1;
  }

  #storedField(field: StoredField): void {
    const reader = this.#reader;
    const stored = this.#stored;
    if (reader.nil()) return;
    switch (field) {
      case "block_hashes":
        this.#hashes(stored);
        return;
      case "parent_block_hash":
        reader.hash();
        // Engines that know no nil write 0.
        stored.hasParent = reader.low !== 0 || reader.high !== 0;
        stored.parentLow = reader.low;
        stored.parentHigh = reader.high;
        return;
      case "token_ids":
        stored.tokenCount = reader.list();
        if (stored.tokenCount > stored.tokens.length) stored.tokens = new Int32Array(2 * stored.tokenCount);
        reader.int32s(stored.tokens, stored.tokenCount);
        return;
      case "block_size":
        stored.blockSize = reader.size();
        return;
      case "medium":
        stored.tier = this.#text().toLowerCase();
        return;
      case "lora_name":
        stored.adapter = this.#text();
        return;
      case "extra_keys":
        this.#extras();
        return;
      case "group_idx":
        stored.group = reader.size();
        return;
      case "kv_cache_spec_kind":
        stored.kind = this.#text();
        return;
      default:
        reader.skip();
    }
  }

  #removedField(field: RemovedField): void {
    const reader = this.#reader;
    if (reader.nil()) return;
    if (field === "block_hashes") this.#hashes(this.#removed);
    else if (field === "medium") this.#removed.tier = this.#text().toLowerCase();
    else this.#removed.group = reader.size();
  }

  #hashes(into: Hashes): void {
    const reader = this.#reader;
    const count = reader.list();
    if (count > MAX_HASHES) throw new MalformedPayload(`an event of more than ${MAX_HASHES} blocks`);
    if (count > into.low.length) {
      into.low = new Int32Array(2 * count);
      into.high = new Int32Array(2 * count);
    }
    for (let i = 0; i < count; i++) {
      reader.hash();
      into.low[i] = reader.low;
      into.high[i] = reader.high;
    }
    into.count = count;
  }

  /** Reads a list with a list of texts, or nil, for each block. Texts may come with a number, as `[text, offset]`. */
  #extras(): void {
    const reader = this.#reader;
    const count = reader.list();
    let extras: (readonly string[] | undefined)[] | undefined;
    for (let block = 0; block < count; block++) {
      if (reader.nil()) continue;
      const texts: string[] = [];
      for (let left = reader.list(); left > 0; left--) {
        if (reader.isText()) texts.push(this.#text());
        else if (reader.isList()) {
          let rest = reader.list();
          if (rest > 0 && reader.isText()) {
            texts.push(this.#text());
            rest--;
          }
          for (; rest > 0; rest--) reader.skip();
        } else reader.skip();
        if (texts.length > MAX_EXTRAS) throw new MalformedPayload("a block with too many extra keys");
      }
      if (texts.length === 0) continue;
      extras ??= [];
      extras[block] = texts;
    }
    this.#stored.extras = extras;
  }

  #text(): string {
    return this.#reader.text(MAX_TEXT);
  }
}

function emptyHashes(): Hashes {
  return { low: new Int32Array(64), high: new Int32Array(64), count: 0 };
}

function isOneOf<T extends string>(names: readonly T[], name: string): name is T {
  return (names as readonly string[]).includes(name);
}
