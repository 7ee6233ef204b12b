import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { MediaSpan, TokenizedPrompt } from "../../base/plugin/keys.ts";
import type { EventIndex, Matches } from "../prefix/event-index.ts";
import type { TokenChain } from "../prefix/token-chain.ts";

/** The tokens of a prompt, and what else its blocks depend on. */
export interface HashedPrompt {
  readonly tokenized: TokenizedPrompt;
  /** The model or the adapter. */
  readonly model: string;
  readonly cacheSalt: string;
}

/** One of the prompts of a request. */
interface Part extends Pick<HashedPrompt, "model" | "cacheSalt"> {
  /** As the engine sees them. */
  readonly tokens: Int32Array;
  readonly media: readonly MediaSpan[];
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
  #confirmed = new Float64Array(32);
  /** The first part of `media` that may overlap the next block. */
  #nextMedia = 0;

  constructor(index: EventIndex, chain: TokenChain) {
    this.#index = index;
    this.#chain = chain;
  }

  /**
   * Adds the leading tokens of all prompts to what `out` holds, for endpoints[i] at i.
   * @param sizes tokens per block
   * @returns the most leading tokens of any endpoint
   */
  match(
    prompt: HashedPrompt,
    sizes: readonly number[],
    endpoints: readonly Endpoint[],
    count: number,
    out: Matches,
  ): number {
    let most = 0;
    for (let at = 0; at < prompt.tokenized.prompts.length; at++) {
      const part = partOf(prompt, at);
      if (sizes.length === 1) most += this.#matchOne(part, sizes[0]!, endpoints, count, out);
      else most += this.#matchAll(part, sizes, endpoints, count, out);
    }
    return most;
  }

  /** Calls `take` for the whole blocks of all prompts, `most` at most. */
  keys(prompt: HashedPrompt, size: number, most: number, take: (low: number, high: number) => void): void {
    const chain = this.#chain;
    let left = most;
    for (let at = 0; at < prompt.tokenized.prompts.length && left > 0; at++) {
      const part = partOf(prompt, at);
      chain.begin(part.model);
      this.#nextMedia = 0;
      for (let end = size; end <= part.tokens.length && left > 0; end += size, left--) {
        this.#mixExtras(part, end - size, end);
        chain.add(part.tokens, end - size, end);
        take(chain.low, chain.high);
      }
    }
  }

  /** An endpoint counts by the size at which it has most. */
  #matchAll(part: Part, sizes: readonly number[], endpoints: readonly Endpoint[], count: number, out: Matches): number {
    if (count > this.#weighted.length) {
      this.#weighted = new Float64Array(2 * count);
      this.#blocks = new Float64Array(2 * count);
      this.#confirmed = new Float64Array(2 * count);
    }
    const fresh = () => new Float64Array(count);
    const best = { weighted: fresh(), blocks: fresh(), confirmed: fresh() };
    const own = { weighted: this.#weighted, blocks: this.#blocks, confirmed: this.#confirmed };
    let most = 0;
    for (const size of sizes) {
      own.weighted.fill(0, 0, count);
      own.blocks.fill(0, 0, count);
      own.confirmed.fill(0, 0, count);
      most = Math.max(most, this.#matchOne(part, size, endpoints, count, own));
      for (let i = 0; i < count; i++) {
        best.weighted[i] = Math.max(best.weighted[i]!, own.weighted[i]!);
        best.blocks[i] = Math.max(best.blocks[i]!, own.blocks[i]!);
        best.confirmed[i] = Math.max(best.confirmed[i]!, own.confirmed[i]!);
      }
    }
    for (let i = 0; i < count; i++) {
      out.weighted[i]! += best.weighted[i]!;
      out.blocks[i]! += best.blocks[i]!;
      if (out.confirmed !== undefined) out.confirmed[i]! += best.confirmed[i]!;
    }
    return most;
  }

  #matchOne(part: Part, size: number, endpoints: readonly Endpoint[], count: number, out: Matches): number {
    const chain = this.#chain;
    const index = this.#index;
    chain.begin(part.model);
    this.#nextMedia = 0;
    index.begin(endpoints, count);
    const { tokens } = part;
    const hasExtras = part.media.length > 0 || part.cacheSalt !== "";
    let end = size;
    for (; end <= tokens.length; end += size) {
      if (hasExtras) this.#mixExtras(part, end - size, end);
      chain.add(tokens, end - size, end);
      if (!index.extend(chain.low, chain.high)) break;
    }
    index.finish(endpoints, count, out, size);
    return end - size;
  }

  /**
   * Mixes in what engines hash beside the tokens [start, end): images that overlap them, and the salt with the first block. The
   * blocks of a part come in order.
   */
  #mixExtras({ media, cacheSalt }: Part, start: number, end: number): void {
    while (this.#nextMedia < media.length && endOf(media[this.#nextMedia]!) <= start) this.#nextMedia++;
    for (let at = this.#nextMedia; at < media.length && media[at]!.offset < end; at++)
      this.#chain.mixText(media[at]!.hash);
    if (start === 0 && cacheSalt !== "") this.#chain.mixText(cacheSalt);
  }
}

function endOf({ offset, tokens }: MediaSpan): number {
  return offset + tokens.length;
}

function partOf({ tokenized: { tokens, prompts, media }, model, cacheSalt }: HashedPrompt, at: number): Part {
  const { start, end } = prompts[at]!;
  const spans = media?.filter(({ prompt }) => prompt === at) ?? NO_MEDIA;
  const offset = tokens.byteOffset + start;
  const length = (end - start) >> 2;
  if (offset % 4 === 0 && spans.length === 0)
    return { model, cacheSalt, media: spans, tokens: new Int32Array(tokens.buffer, offset, length) };
  const copy = new Int32Array(length);
  new Uint8Array(copy.buffer).set(tokens.subarray(start, start + 4 * length));
  for (const { offset: place, tokens: own } of spans)
    for (let i = 0; i < own.length && place + i < length; i++) copy[place + i] = own[i]!;
  return { model, cacheSalt, media: spans, tokens: copy };
}
