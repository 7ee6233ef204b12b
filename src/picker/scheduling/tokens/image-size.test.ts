import { describe, expect, it } from "vitest";
import { imageSize } from "./image-size.ts";

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
