import { describe, expect, it } from "vitest";
import { HeaderList } from "../../../base/inference/headers.ts";
import { estimateParameters, imageSize, imageTokens, videoTokens } from "./media-tokens.ts";

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

function sizeOf(text: string) {
  const body = Buffer.from(`"${text}"`);
  return imageSize(body, 1, body.length - 1);
}
const u16 = (value: number): number[] => [value >> 8, value & 255];

const PNG = [0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52, 0, 0, 7, 128, 0, 0, 4, 56, 8];
const GIF = [..."GIF89a"].map((c) => c.charCodeAt(0)).concat([44, 1, 200, 0, 0]);
const JPEG = [
  ...[0xff, 0xd8, 0xff, 0xe1, ...u16(300), ...Array(298).fill(0xff)],
  ...[0xff, 0xff, 0xc4, ...u16(4), 1, 2, 0xff, 0x01],
  ...[0xff, 0xc2, ...u16(17), 8, ...u16(2160), ...u16(3840), 3],
];

describe("the dimensions of an image", () => {
  it.each([
    ["PNG", PNG, { width: 1920, height: 1080 }],
    ["GIF", GIF, { width: 300, height: 200 }],
    ["JPEG, behind other segments", JPEG, { width: 3840, height: 2160 }],
  ])("are read from a %s file, bare or in a data: address", (_name, file, size) => {
    const text = Buffer.from(file).toString("base64");
    expect(sizeOf(text)).toEqual(size);
    expect(sizeOf(`data:image/any;base64,${text}`)).toEqual(size);
  });

  it("are unknown for links, other encodings, other formats, damaged files and empty images", () => {
    const png = Buffer.from(PNG).toString("base64");
    const empty = Buffer.from([...PNG.slice(0, 16), 0, 0, 0, 0, 0, 0, 0, 5]).toString("base64");
    const noScan = Buffer.from([0xff, 0xd8, ...Array(2000).fill([0xff, 0xe0, 0, 2]).flat()]).toString("base64");
    for (const text of [
      "https://example.org/a.png",
      `data:image/png,${png}`,
      `data:image/svg+xml;utf8,<svg/>`,
      `data:${"x".repeat(300)};base64,${png}`,
      png.slice(0, 24),
      `${png.slice(0, 24)}!${png.slice(25)}`,
      Buffer.from(JPEG).toString("base64").slice(0, 200),
      empty,
      noScan,
      "data:",
      "",
    ])
      expect(sizeOf(text), text).toBeUndefined();
  });

  it("take a look at the head alone, however the file goes on", () => {
    const rest = Buffer.alloc(1 << 20, 1);
    expect(sizeOf(Buffer.concat([Buffer.from(PNG), rest]).toString("base64"))).toEqual({ width: 1920, height: 1080 });
  });
});
