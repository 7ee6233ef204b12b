import { type InferenceRequest, promptBytes, USUAL_BYTES_PER_TOKEN } from "../../../base/inference/request.ts";
import type { TokenizedPrompt } from "../../../base/plugin/keys.ts";
import type { MediaTokens } from "../../../base/plugin/tokenizers.ts";
import { BlockHasher, BlockHashes, HASHED_BYTES_PER_TOKEN } from "../../prefix/block-hash.ts";
import { type MediaPart, mediaParts } from "./media-parts.ts";
import { type EstimateParameters, imageSize, imageTokens, videoTokens } from "./media-tokens.ts";
import { TokenBuffer } from "./token-buffer.ts";

/**
 * Counts tokens without a tokenizer. Text counts by the known bytes per token of the model, and four received bytes are packed
 * into one number. An image or a video is one number, repeated as often as its estimated tokens (scheduling 3.11).
 *
 * These are the bytes that are hashed where no producer has tokenized, so a text has the same prefix either way. Only prompts
 * with images or videos need the copy. Sounds count by their size, as their bytes already do.
 */
export class TokenEstimate {
  readonly #parameters: EstimateParameters;
  readonly #hasher: BlockHasher;
  readonly #hashes = new BlockHashes();

  /** @param key0 32 secret random bits: with them clients cannot forge the number of an image @param key1 32 more */
  constructor(parameters: EstimateParameters, key0: number, key1: number) {
    this.#parameters = parameters;
    this.#hasher = new BlockHasher(key0, key1);
  }

  /** Undefined for a prompt without images and videos: its bytes count as the tokens. */
  of(request: InferenceRequest): TokenizedPrompt | undefined {
    const parts = mediaParts(request).filter(({ kind }) => kind !== "audio");
    if (parts.length === 0) return undefined;
    const counts = parts.map((part) => this.#tokensOf(part, request));
    const buffer = new TokenBuffer(capacity(request, parts, counts));
    let next = 0;
    for (const ranges of request.prompts) {
      buffer.beginPrompt();
      for (const range of ranges) {
        let at = range.start;
        for (; next < parts.length && parts[next]!.start >= at && parts[next]!.end <= range.end; next++) {
          const part = parts[next]!;
          buffer.pack(request.body, at, part.start);
          buffer.align();
          buffer.add(this.#placeholder(request.body, part), counts[next]);
          at = part.end;
        }
        buffer.pack(request.body, at, range.end);
      }
    }
    const packed = buffer.finish();
    if (packed === undefined) return undefined;
    const media = counts.reduce((sum, count) => sum + count, 0);
    const text = Math.ceil((packed.count - media) * tokensPerUnit(request, parts));
    return { ...packed, units: packed.count, count: media + text };
  }

  /** Returns what stands in the prompt for each image, video and sound, in the order of the body; a sound counts as one token. */
  media(request: InferenceRequest): MediaTokens[] {
    return mediaParts(request).map((part) => ({
      token: this.#placeholder(request.body, part),
      count: part.kind === "audio" ? 1 : this.#tokensOf(part, request),
      start: part.start,
      end: part.end,
    }));
  }

  #tokensOf({ kind, start, end }: MediaPart, { body, headers }: InferenceRequest): number {
    if (kind === "video") return videoTokens(this.#parameters, headers);
    return imageTokens(this.#parameters, imageSize(body, start, end));
  }

  /** Returns one hash of the whole address or data. */
  #placeholder(body: Uint8Array, part: MediaPart): number {
    const blockTokens = Math.ceil((part.end - part.start) / HASHED_BYTES_PER_TOKEN);
    this.#hasher.hash({ body, prompts: [[part]], cacheSalt: "", targetModel: "" }, blockTokens, 1, this.#hashes);
    return this.#hashes.low[0]! >>> 0;
  }
}

/** Returns the tokens in four received bytes of the prompts' text. */
function tokensPerUnit(request: InferenceRequest, parts: readonly MediaPart[]): number {
  const { bytesPerToken = USUAL_BYTES_PER_TOKEN, escapeBytes = 0 } = request;
  const received = parts.reduce((sum, { start, end }) => sum - (end - start), promptBytes(request));
  const share = received > escapeBytes ? 1 - escapeBytes / received : 1;
  return (HASHED_BYTES_PER_TOKEN * share) / bytesPerToken;
}

/** Returns the tokens that a buffer for the whole prompt needs; each part and each prompt may begin with padding. */
function capacity(request: InferenceRequest, parts: readonly MediaPart[], counts: readonly number[]): number {
  let bytes = promptBytes(request);
  let tokens = request.prompts.length + parts.length + 1;
  for (const [i, part] of parts.entries()) {
    bytes -= part.end - part.start;
    tokens += counts[i]!;
  }
  return tokens + Math.ceil(bytes / HASHED_BYTES_PER_TOKEN);
}
