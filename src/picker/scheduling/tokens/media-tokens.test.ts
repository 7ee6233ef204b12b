import { describe, expect, it } from "vitest";
import { HeaderList } from "../../../base/inference/headers.ts";
import { estimateParameters, imageTokens, videoTokens } from "./media-tokens.ts";

const image = (parameters: object, size?: { width: number; height: number }): number =>
  imageTokens(estimateParameters.parse({ image: parameters }), size);
const video = (parameters: object, headers: [string, string][] = []): number =>
  videoTokens(estimateParameters.parse({ video: parameters }), HeaderList.of(headers));

describe("estimates of what media take in a prompt", () => {
  it("an image takes a token per 1,024 pixels, of 640 x 360 where its size is unknown; at least one", () => {
    expect(image({})).toBe(225);
    expect(image({}, { width: 1024, height: 1024 })).toBe(1024);
    expect(image({}, { width: 10, height: 10 })).toBe(1);
    expect(image({ dynamic: { factor: 28 * 28 }, defaultResolution: { width: 280, height: 56 } })).toBe(20);
  });

  it("or as many as the configuration says", () => {
    expect(image({ mode: "static", static: { staticToken: 256 } }, { width: 4000, height: 4000 })).toBe(256);
    expect(image({ mode: "static" })).toBe(1);
  });

  it("never more than 65,536: nobody's load depends on what the head of a file claims", () => {
    expect(image({}, { width: 4_000_000_000, height: 4_000_000_000 })).toBe(65_536);
    expect(video({}, [["x-llm-d-video-duration-seconds", "1e30"]])).toBe(65_536);
  });

  it("a film takes frames times tokens per frame: sampled, merged in groups and capped", () => {
    expect(video({})).toBe(10 * 2 * 225);
    expect(video({ frames: { sampled: { sampleFPS: 1, temporalPatchSize: 2 }, maxFrames: 8 } })).toBe(4 * 225);
    expect(video({ frames: { minFrames: 64 } })).toBe(64 * 225);
    expect(video({ maxVideoTokens: 1000 })).toBe(1000);
  });

  it("or one frame in so many, with a number of tokens each", () => {
    const gemma = {
      tokensPerFrame: { mode: "static", static: { numTokensPerFrame: 70 } },
      frames: { mode: "strided", strided: { frameStride: 24 }, maxFrames: 32 },
    };
    expect(video(gemma)).toBe(10 * 70);
    expect(video(gemma, [["x-llm-d-video-duration-seconds", "100.5"]])).toBe(32 * 70);
    expect(video(gemma, [["x-llm-d-video-fps", "48"]])).toBe(20 * 70);
  });

  it("the request's headers say more than the configuration, if they make sense", () => {
    const one = { frames: { maxFrames: 1 } };
    expect(video(one, [["x-llm-d-video-resolution", "1024X512"]])).toBe(512);
    for (const nonsense of ["1024", "x", "-1x5", "5x", "1x2x3", "axb", ""])
      expect(video(one, [["x-llm-d-video-resolution", nonsense]]), nonsense).toBe(225);
    expect(video({}, [["x-llm-d-video-duration-seconds", "-3"]])).toBe(4500);
  });
});
