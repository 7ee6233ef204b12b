import type { InferenceRequest } from "../../../../base/inference/request.ts";
import { BlockHasher, BlockHashes } from "../../../prefix/block-hash.ts";
import { type MediaPart, mediaParts } from "../../tokens/media-parts.ts";

/** Items of up to this many bytes are hashed whole. */
const WHOLE = 64 * 1024;
/** Of longer ones: the ends, and slices spread over the rest. */
const HEAD = 32 * 1024;
const TAIL = 16 * 1024;
const SLICES = 256;
const SLICE = 64;
/** A block that holds all that is hashed of an item. */
const BLOCK_TOKENS = WHOLE / 2;

/** One image, sound or video of a request. */
export interface MediaItem {
  /** Equal for equal addresses and for equal data. */
  readonly hash: string;
  readonly kind: MediaPart["kind"];
}

/** Hashes media, with a key of the process so that clients cannot choose texts with equal hashes. */
export class MediaHasher {
  readonly #hasher: BlockHasher;
  readonly #hashes = new BlockHashes();
  readonly #sample = new Uint8Array(HEAD + TAIL + SLICES * SLICE + 8);

  /** @param key0 32 random bits, @param key1 32 more */
  constructor(key0: number, key1: number) {
    this.#hasher = new BlockHasher(key0, key1);
  }

  /**
   * Returns the distinct images, sounds and videos of a request. Of data longer than 64 KiB the hash takes 64 KiB and the
   * length: media are compressed, so two of them do not differ elsewhere alone, and a decision must not wait for megabytes.
   */
  items(request: Pick<InferenceRequest, "body" | "prompts">): readonly MediaItem[] {
    const items = new Map<string, MediaItem>();
    for (const { kind, start, end } of mediaParts(request)) {
      const hash = this.#hashOf(request.body.subarray(start, end));
      if (!items.has(hash)) items.set(hash, { hash, kind });
    }
    return [...items.values()];
  }

  #hashOf(data: Uint8Array): string {
    const body = data.length <= WHOLE ? data : this.#sampleOf(data);
    const prompts = [[{ start: 0, end: body.length }]];
    this.#hasher.hash({ body, prompts, cacheSalt: "", targetModel: "" }, BLOCK_TOKENS, 1, this.#hashes);
    return `${this.#hashes.low[0]}:${this.#hashes.high[0]}`;
  }

  #sampleOf(data: Uint8Array): Uint8Array {
    const sample = this.#sample;
    sample.set(data.subarray(0, HEAD));
    sample.set(data.subarray(data.length - TAIL), HEAD);
    const step = (data.length - HEAD - TAIL - SLICE) / SLICES;
    for (let i = 0; i < SLICES; i++) {
      const from = HEAD + Math.floor(i * step);
      sample.set(data.subarray(from, from + SLICE), HEAD + TAIL + i * SLICE);
    }
    new DataView(sample.buffer).setFloat64(sample.length - 8, data.length);
    return sample;
  }
}
