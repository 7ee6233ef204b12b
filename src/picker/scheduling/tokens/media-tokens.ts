import { z } from "zod";
import type { HeaderList } from "../../../base/inference/headers.ts";
import type { Resolution } from "./image-size.ts";

/** The most that one image or film counts, whatever its head, the configuration or a header says. */
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

/**
 * Tokens that an image takes in a prompt, from 1 up.
 * @param size as its head says, where that could be read
 */
export function imageTokens({ image }: EstimateParameters, size: Resolution | undefined): number {
  if (image.mode === "static") return image.static.staticToken;
  return area(size ?? image.defaultResolution, image.dynamic.factor);
}

/**
 * Tokens that each film of a request takes, from 1 up. What its headers `x-llm-d-video-*` say of length, size and rate
 * goes before the configuration.
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
