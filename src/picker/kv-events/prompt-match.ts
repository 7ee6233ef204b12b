import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { MediaSpan, TokenizedPrompt } from "../../base/plugin/keys.ts";
import type { EventIndex } from "../prefix/event-index.ts";
import type { TokenChain } from "../prefix/token-chain.ts";

/** The tokens of a prompt, and what else its blocks depend on. */
export interface HashedPrompt {
  readonly tokenized: TokenizedPrompt;
  /** The model or the adapter. */
  readonly model: string;
  readonly cacheSalt: string;
}

const NO_MEDIA: readonly MediaSpan[] = [];

/**
 * Finds how many leading blocks of a prompt each endpoint has, at the block sizes that the engines use. The keys of blocks are
 * made only as far as some endpoint has them.
 */
export class PromptMatch {
  readonly #index: EventIndex;
  readonly #chain: TokenChain;
  #weighted = new Float64Array(32);
  #blocks = new Float64Array(32);

  constructor(index: EventIndex, chain: TokenChain) {
    this.#index = index;
    this.#chain = chain;
  }

  /**
   * Adds the leading tokens of all prompts to what `weighted` and `cached` hold, for endpoints[i] at i.
   * @param sizes tokens per block
   * @returns the most leading tokens of any endpoint
   */
  match(
    prompt: HashedPrompt,
    sizes: readonly number[],
    endpoints: readonly Endpoint[],
    count: number,
    weighted: Float64Array,
    cached: Float64Array,
  ): number {
    let most = 0;
    for (let at = 0; at < prompt.tokenized.prompts.length; at++) {
      const tokens = tokensOf(prompt.tokenized, at);
      if (sizes.length === 1)
        most += this.#matchOne(prompt, at, tokens, sizes[0]!, endpoints, count, { weighted, blocks: cached });
      else most += this.#matchAll(prompt, at, tokens, sizes, endpoints, count, weighted, cached);
    }
    return most;
  }

  /** Calls `take` for the whole blocks of all prompts, `most` at most. */
  keys(prompt: HashedPrompt, size: number, most: number, take: (low: number, high: number) => void): void {
    const chain = this.#chain;
    let left = most;
    prompt.tokenized.prompts.forEach((_, at) => {
      if (left === 0) return;
      const tokens = tokensOf(prompt.tokenized, at);
      const media = mediaOf(prompt.tokenized, at);
      chain.begin(prompt.model);
      for (let end = size; end <= tokens.length && left > 0; end += size, left--) {
        this.#mixExtras(prompt, media, end - size, end);
        chain.add(tokens, end - size, end);
        take(chain.low, chain.high);
      }
    });
  }

  /** An endpoint counts by the size at which it has most. */
  #matchAll(
    prompt: HashedPrompt,
    at: number,
    tokens: Int32Array,
    sizes: readonly number[],
    endpoints: readonly Endpoint[],
    count: number,
    weighted: Float64Array,
    cached: Float64Array,
  ): number {
    if (count > this.#weighted.length) {
      this.#weighted = new Float64Array(2 * count);
      this.#blocks = new Float64Array(2 * count);
    }
    const best = new Float64Array(count);
    const bestCached = new Float64Array(count);
    const own = { weighted: this.#weighted, blocks: this.#blocks };
    let most = 0;
    for (const size of sizes) {
      own.weighted.fill(0, 0, count);
      own.blocks.fill(0, 0, count);
      most = Math.max(most, this.#matchOne(prompt, at, tokens, size, endpoints, count, own));
      for (let i = 0; i < count; i++) {
        best[i] = Math.max(best[i]!, own.weighted[i]!);
        bestCached[i] = Math.max(bestCached[i]!, own.blocks[i]!);
      }
    }
    for (let i = 0; i < count; i++) {
      weighted[i]! += best[i]!;
      cached[i]! += bestCached[i]!;
    }
    return most;
  }

  #matchOne(
    prompt: HashedPrompt,
    at: number,
    tokens: Int32Array,
    size: number,
    endpoints: readonly Endpoint[],
    count: number,
    out: { readonly weighted: Float64Array; readonly blocks: Float64Array },
  ): number {
    const chain = this.#chain;
    const index = this.#index;
    const media = mediaOf(prompt.tokenized, at);
    chain.begin(prompt.model);
    index.begin(endpoints, count);
    const hasExtras = media.length > 0 || prompt.cacheSalt !== "";
    let end = size;
    for (; end <= tokens.length; end += size) {
      if (hasExtras) this.#mixExtras(prompt, media, end - size, end);
      chain.add(tokens, end - size, end);
      if (!index.extend(chain.low, chain.high)) break;
    }
    index.finish(endpoints, count, out, size);
    return end - size;
  }

  /** Mixes in what engines hash beside the tokens [start, end): images that overlap them, and the salt with the first block. */
  #mixExtras({ cacheSalt }: HashedPrompt, media: readonly MediaSpan[], start: number, end: number): void {
    for (const { offset, tokens, hash } of media)
      if (offset < end && offset + tokens.length > start) this.#chain.mixText(hash);
    if (start === 0 && cacheSalt !== "") this.#chain.mixText(cacheSalt);
  }
}

/** Returns the tokens of a prompt as the engine sees them. */
function tokensOf({ tokens, prompts, media }: TokenizedPrompt, at: number): Int32Array {
  const { start, end } = prompts[at]!;
  const offset = tokens.byteOffset + start;
  const isAligned = offset % 4 === 0;
  const spans = media?.filter(({ prompt }) => prompt === at) ?? NO_MEDIA;
  if (isAligned && spans.length === 0) return new Int32Array(tokens.buffer, offset, (end - start) >> 2);
  const copy = new Int32Array((end - start) >> 2);
  new Uint8Array(copy.buffer).set(tokens.subarray(start, start + 4 * copy.length));
  for (const { offset: place, tokens: own } of spans)
    for (let i = 0; i < own.length && place + i < copy.length; i++) copy[place + i] = own[i]!;
  return copy;
}

function mediaOf({ media }: TokenizedPrompt, at: number): readonly MediaSpan[] {
  return media === undefined ? NO_MEDIA : media.filter(({ prompt }) => prompt === at);
}
