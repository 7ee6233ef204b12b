/** What one remembered piece takes besides its characters and tokens: the map's entry and the heads of its objects. */
const ENTRY_BYTES = 200;

/**
 * The tokens of pieces of text that were seen before, the least recently used one dropped first. A prompt that begins like an
 * earlier one consists of the same pieces up to the place where they part.
 */
export class ChunkCache {
  readonly #limit: number;
  readonly #entries = new Map<string, Uint32Array>();
  #bytes = 0;
  #hits = 0;
  #misses = 0;

  /** @param limit the most bytes that texts and tokens take; 0 = nothing is remembered */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Bytes of all entries, at most the limit. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Pieces that were found, and pieces that were not. */
  get lookups(): { readonly hits: number; readonly misses: number } {
    return { hits: this.#hits, misses: this.#misses };
  }

  get(text: string): Uint32Array | undefined {
    const found = this.#entries.get(text);
    if (found === undefined) {
      this.#misses++;
      return undefined;
    }
    this.#hits++;
    this.#entries.delete(text);
    this.#entries.set(text, found);
    return found;
  }

  /** @param text a copy of its own: a slice of a prompt would keep the whole prompt alive */
  put(text: string, tokens: Uint32Array): void {
    const bytes = sizeOf(text, tokens);
    if (bytes > this.#limit) return;
    const old = this.#entries.get(text);
    if (old !== undefined) this.#remove(text, old);
    this.#entries.set(text, tokens);
    this.#bytes += bytes;
    for (const [oldest, its] of this.#entries) {
      if (this.#bytes <= this.#limit) return;
      this.#remove(oldest, its);
    }
  }

  #remove(text: string, tokens: Uint32Array): void {
    this.#entries.delete(text);
    this.#bytes -= sizeOf(text, tokens);
  }
}

/** Two bytes a character, as texts beyond Latin-1 take. */
function sizeOf(text: string, tokens: Uint32Array): number {
  return ENTRY_BYTES + 2 * text.length + 4 * tokens.length;
}
