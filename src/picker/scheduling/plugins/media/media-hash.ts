import { hash } from "node:crypto";
import type { InferenceRequest } from "../../../../base/inference/request.ts";
import { type MediaPart, mediaParts } from "../../tokens/media-parts.ts";

/** Items of up to this many bytes are hashed whole. */
const WHOLE = 64 * 1024;
/** Of longer ones: the ends, and slices spread over the rest. */
const HEAD = 32 * 1024;
const TAIL = 16 * 1024;
const SLICES = 256;
const SLICE = 64;

/** One image, sound or video of a request. */
export interface MediaItem {
  /** Equal for equal addresses and for equal data. */
  readonly hash: string;
  readonly kind: MediaPart["kind"];
}

/**
 * Returns the distinct images, sounds and videos of a request. Of data longer than 64 KiB the hash takes 64 KiB and the length:
 * media are compressed, so two of them do not differ elsewhere alone, and a decision must not wait for megabytes.
 */
export function mediaItems(request: Pick<InferenceRequest, "body" | "prompts">): readonly MediaItem[] {
  const items = new Map<string, MediaItem>();
  for (const { kind, start, end } of mediaParts(request)) {
    const item = hashOf(request.body.subarray(start, end));
    if (!items.has(item)) items.set(item, { hash: item, kind });
  }
  return [...items.values()];
}

function hashOf(data: Uint8Array): string {
  if (data.length <= WHOLE) return hash("sha1", data, "base64");
  const taken = new Uint8Array(HEAD + TAIL + SLICES * SLICE + 8);
  taken.set(data.subarray(0, HEAD));
  taken.set(data.subarray(data.length - TAIL), HEAD);
  const step = (data.length - HEAD - TAIL - SLICE) / SLICES;
  for (let i = 0; i < SLICES; i++) {
    const from = HEAD + Math.floor(i * step);
    taken.set(data.subarray(from, from + SLICE), HEAD + TAIL + i * SLICE);
  }
  new DataView(taken.buffer).setFloat64(taken.length - 8, data.length);
  return hash("sha1", taken, "base64");
}
