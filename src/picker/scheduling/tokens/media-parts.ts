import type { ByteRange, InferenceRequest } from "../../../base/inference/request.ts";

/** An image, a video or a sound in a conversation: the place in the body of its address or its data, without the quotes. */
export interface MediaPart extends ByteRange {
  readonly kind: "image" | "video" | "audio";
}

/** The most parts of one request; the rest counts as text. */
export const MAX_PARTS = 1024;
/** The deepest object that may hold a part. No API comes near this depth. */
const MAX_DEPTH = 64;

/** Bytes in which a loop searches for the end of a string. */
const NEAR = 64;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;

// The keys that matter, as small integers.
const OTHER = 0;
const URL = 1;
const DATA = 2;
const SOURCE = 3;
const IMAGE_URL = 4;
const VIDEO_URL = 5;
const AUDIO_URL = 6;
const INPUT_AUDIO = 7;
const KEYS: readonly (readonly [number, string])[] = [
  [URL, "url"],
  [DATA, "data"],
  [SOURCE, "source"],
  [IMAGE_URL, "image_url"],
  [VIDEO_URL, "video_url"],
  [AUDIO_URL, "audio_url"],
  [INPUT_AUDIO, "input_audio"],
];
/** The beginnings of PNG, JPEG, GIF and WebP files in base64. */
const IMAGE_MAGIC: readonly string[] = ["iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR"];

/** The key of each object around the current position. One array serves all walks, because a walk never yields. */
const around = new Uint8Array(MAX_DEPTH);

/**
 * Returns the places of the parts that are no text. These are `image_url`, `video_url`, `audio_url`, `input_audio` of chats,
 * `image_url` of the responses API, and the `source` of images in messages.
 *
 * The function walks over JSON that a parser has found valid, from string to string. The prompts of completions are the inside
 * of one string and hold no parts.
 * @returns in the order of the body's ranges, at most `MAX_PARTS`
 */
export function mediaParts({ body, prompts }: Pick<InferenceRequest, "body" | "prompts">): MediaPart[] {
  const parts: MediaPart[] = [];
  for (const ranges of prompts) for (const range of ranges) walk(body, range, parts);
  return parts;
}

function walk(body: Uint8Array, { start, end }: ByteRange, parts: MediaPart[]): void {
  if (body[start - 1] === QUOTE) return;
  let depth = 0;
  around[0] = OTHER;
  let key = OTHER;
  for (let at = start; at < end; at++) {
    const c = body[at]!;
    if (c === QUOTE) {
      const from = at + 1;
      at = closingQuote(body, from, end);
      const next = skipSpace(body, at + 1, end);
      if (next < end && body[next] === COLON) {
        key = keyOf(body, from, at);
        at = next;
      } else {
        const kind = depth < MAX_DEPTH ? kindOf(around[depth]!, key, body, from, at) : undefined;
        if (kind !== undefined && parts.length < MAX_PARTS) parts.push({ kind, start: from, end: at });
        key = OTHER;
      }
    } else if (c === COMMA) {
      key = OTHER;
    } else if ((c | 0x20) === 0x7b) {
      // 0x20 turns a bracket into a brace.
      depth++;
      if (depth < MAX_DEPTH) around[depth] = key;
      key = OTHER;
    } else if ((c | 0x20) === 0x7d) depth--;
  }
}

/** Returns the offset of the quote that ends the string whose inside begins at `from`; `end` when there is none. */
function closingQuote(body: Uint8Array, from: number, end: number): number {
  let at = from;
  for (;;) {
    // A call costs as much as a hundred bytes here, and text that holds JSON has a quote every ten bytes.
    const near = Math.min(end, at + NEAR);
    while (at < near && body[at] !== QUOTE) at++;
    if (at === near) at = body.indexOf(QUOTE, at);
    if (at < 0 || at >= end) return end;
    let slashes = 0;
    while (at - slashes > from && body[at - slashes - 1] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return at;
    at++;
  }
}

function skipSpace(body: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end && body[at]! <= 0x20) at++;
  return at;
}

function keyOf(body: Uint8Array, start: number, end: number): number {
  for (const [key, name] of KEYS) if (end - start === name.length && startsWith(body, start, end, name)) return key;
  return OTHER;
}

function kindOf(
  parent: number,
  key: number,
  body: Uint8Array,
  start: number,
  end: number,
): MediaPart["kind"] | undefined {
  if (end === start) return undefined;
  if (key === IMAGE_URL || (parent === IMAGE_URL && key === URL)) return "image";
  if (key === VIDEO_URL || (parent === VIDEO_URL && key === URL)) return "video";
  if (key === AUDIO_URL || (parent === AUDIO_URL && key === URL) || (parent === INPUT_AUDIO && key === DATA))
    return "audio";
  // Documents have a source too, whose data may be plain text.
  if (parent === SOURCE && key === DATA)
    return IMAGE_MAGIC.some((magic) => startsWith(body, start, end, magic)) ? "image" : undefined;
  return parent === SOURCE && key === URL ? "image" : undefined;
}

/** Whether bytes [start, end) begin with an ASCII text. */
export function startsWith(body: Uint8Array, start: number, end: number, text: string): boolean {
  if (end - start < text.length) return false;
  for (let i = 0; i < text.length; i++) if (body[start + i] !== text.charCodeAt(i)) return false;
  return true;
}
