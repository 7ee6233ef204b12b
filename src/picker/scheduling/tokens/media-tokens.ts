import { z } from "zod";
import type { HeaderList } from "../../../base/inference/headers.ts";
import { startsWith } from "./media-parts.ts";

/**
 * The most tokens that one image or video counts. This limit goes before its file header, the configuration and request headers.
 */
const MAX_PART_TOKENS = 65_536;

const pixels = z.int().min(1).max(65_535);
const tokens = z.int().min(1).max(MAX_PART_TOKENS);
const frames = z.int().min(0).default(0);
const mode = z.enum(["dynamic", "static"]).default("dynamic");
const factor = z.int().min(1).default(1024);
const resolution = z.strictObject({ width: pixels.default(640), height: pixels.default(360) }).prefault({});

const image = z.strictObject({
  mode,
  defaultResolution: resolution,
  dynamic: z.strictObject({ factor }).prefault({}),
  static: z.strictObject({ staticToken: tokens.default(1) }).prefault({}),
});

const video = z.strictObject({
  defaultResolution: resolution,
  defaultDuration: z.number().positive().default(10),
  tokensPerFrame: z
    .strictObject({
      mode,
      dynamic: z.strictObject({ factor }).prefault({}),
      static: z.strictObject({ numTokensPerFrame: tokens.default(1) }).prefault({}),
    })
    .prefault({}),
  frames: z
    .strictObject({
      mode: z.enum(["sampled", "strided"]).default("sampled"),
      minFrames: frames,
      maxFrames: frames,
      sampled: z.strictObject({ sampleFPS: z.number().positive().default(2), temporalPatchSize: frames }).prefault({}),
      strided: z
        .strictObject({ defaultSourceFPS: z.number().positive().default(24), frameStride: z.int().min(1).default(1) })
        .prefault({}),
    })
    .prefault({}),
  maxVideoTokens: z.int().min(0).default(0),
});

/** Parameters of the backend `estimate` (scheduling 3.11). */
export const estimateParameters = z.strictObject({ image: image.prefault({}), video: video.prefault({}) });

export type EstimateParameters = z.output<typeof estimateParameters>;

/** Returns the tokens of an image in a prompt, from 1 up. @param size from the file header, where it is readable */
export function imageTokens({ image }: EstimateParameters, size: Resolution | undefined): number {
  if (image.mode === "static") return image.static.staticToken;
  return area(size ?? image.defaultResolution, image.dynamic.factor);
}

/**
 * Returns the tokens of each video of a request, from 1 up. The request headers `x-llm-d-video-*` with length, size and rate go
 * before the configuration.
 */
export function videoTokens({ video }: EstimateParameters, headers: HeaderList): number {
  const { tokensPerFrame, maxVideoTokens } = video;
  const perFrame =
    tokensPerFrame.mode === "static"
      ? tokensPerFrame.static.numTokensPerFrame
      : area(resolutionOf(headers) ?? video.defaultResolution, tokensPerFrame.dynamic.factor);
  const all = frameCount(video, headers) * perFrame;
  return within(maxVideoTokens > 0 ? Math.min(all, maxVideoTokens) : all);
}

function frameCount({ defaultDuration, frames }: EstimateParameters["video"], headers: HeaderList): number {
  const { minFrames, maxFrames, sampled, strided } = frames;
  const seconds = positive(headers.get("x-llm-d-video-duration-seconds")) ?? defaultDuration;
  const taken =
    frames.mode === "sampled"
      ? Math.floor(seconds * sampled.sampleFPS)
      : Math.floor(
          Math.floor(seconds * (positive(headers.get("x-llm-d-video-fps")) ?? strided.defaultSourceFPS)) /
            strided.frameStride,
        );
  const count = Math.min(Math.max(taken, minFrames), maxFrames > 0 ? maxFrames : Number.POSITIVE_INFINITY);
  return frames.mode === "sampled" && sampled.temporalPatchSize > 1
    ? Math.floor(count / sampled.temporalPatchSize)
    : count;
}

function area({ width, height }: Resolution, pixelsPerToken: number): number {
  return within(Math.floor((width * height) / pixelsPerToken));
}

function within(count: number): number {
  return Math.min(Math.max(count, 1), MAX_PART_TOKENS);
}

function positive(text: string | undefined): number | undefined {
  const value = Number(text);
  return value > 0 && Number.isFinite(value) ? value : undefined;
}

/** `640x360` */
function resolutionOf(headers: HeaderList): Resolution | undefined {
  const [width, height, more] = (headers.get("x-llm-d-video-resolution") ?? "").toLowerCase().split("x");
  const size = { width: positive(width) ?? 0, height: positive(height) ?? 0 };
  return more === undefined && size.width > 0 && size.height > 0 ? size : undefined;
}

interface Resolution {
  /** Pixels, from 1 up. */
  readonly width: number;
  readonly height: number;
}

/** The most segments to read on the way to the dimensions of a JPEG file. */
const MAX_SEGMENTS = 256;
/** The most characters before the data of a `data:` address. */
const LONGEST_MEDIA_TYPE = 128;

const SEXTETS = new Int8Array(256).fill(-1);
for (const [value, letter] of [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].entries())
  SEXTETS[letter.charCodeAt(0)] = value;

/**
 * Reads the dimensions of a PNG, GIF or JPEG file from its file header. The file is a `data:` address or bare base64.
 * @returns undefined for other addresses, other formats and damaged files
 */
export function imageSize(body: Uint8Array, start: number, end: number): Resolution | undefined {
  const data = startsWith(body, start, end, "data:") ? base64Begin(body, start, end) : start;
  if (data < 0) return undefined;
  const at = (index: number): number => byteAt(body, data, end, index);
  const size = sizeOf(at);
  return size !== undefined && size.width > 0 && size.height > 0 ? size : undefined;
}

function sizeOf(at: (index: number) => number): Resolution | undefined {
  const u16 = (index: number): number => at(index) * 256 + at(index + 1);
  if (u16(0) === 0x8950 && u16(2) === 0x4e47)
    return { width: u16(16) * 65_536 + u16(18), height: u16(20) * 65_536 + u16(22) };
  if (u16(0) === 0x4749 && u16(2) === 0x4638) return { width: at(6) + 256 * at(7), height: at(8) + 256 * at(9) };
  if (u16(0) !== 0xffd8) return undefined;
  let index = 2;
  for (let segment = 0; segment < MAX_SEGMENTS && at(index) === 0xff; segment++) {
    const marker = at(index + 1);
    // Fill bytes, and markers without a length.
    if (marker === 0xff) index++;
    else if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) index += 2;
    else if (marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc)
      return { width: u16(index + 7), height: u16(index + 5) };
    else index += 2 + u16(index + 2);
  }
  return undefined;
}

/** Returns the offset of the first character of the data; -1 when it is not base64. */
function base64Begin(body: Uint8Array, start: number, end: number): number {
  const comma = body.indexOf(0x2c, start);
  if (comma < 0 || comma >= Math.min(end, start + LONGEST_MEDIA_TYPE)) return -1;
  return comma - start >= 7 && startsWith(body, comma - 7, comma, ";base64") ? comma + 1 : -1;
}

/** Returns byte `index` of base64 text; NaN where there is none, which equals no value in a comparison. */
function byteAt(body: Uint8Array, start: number, end: number, index: number): number {
  const rest = index % 3;
  const first = start + Math.floor(index / 3) * 4 + rest;
  if (first + 1 >= end) return Number.NaN;
  const high = SEXTETS[body[first]!]!;
  const low = SEXTETS[body[first + 1]!]!;
  if (high < 0 || low < 0) return Number.NaN;
  const shift = 2 * rest;
  return ((high << (2 + shift)) & 0xff) | (low >> (4 - shift));
}
