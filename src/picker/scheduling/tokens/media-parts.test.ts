import { describe, expect, it } from "vitest";
import { MAX_PARTS, mediaParts } from "./media-parts.ts";

/** The parts of a chat whose messages are `value`, written as `text` if given. */
function partsOf(value: unknown, text = JSON.stringify(value)): [string, string][] {
  const body = new TextEncoder().encode(`{"messages":${text}}`);
  const range = { start: '{"messages":'.length, end: body.length - 1 };
  return mediaParts({ body, prompts: [[range]] }).map(({ kind, start, end }) => [
    kind,
    new TextDecoder().decode(body.subarray(start, end)),
  ]);
}

const user = (...content: unknown[]): unknown => [{ role: "user", content }];
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB";

describe("media parts of a conversation", () => {
  it("are found in the shapes of all three APIs, in the order of the body", () => {
    expect(
      partsOf(
        user(
          { type: "text", text: "look" },
          { type: "image_url", image_url: { detail: "high", url: "https://a/1.png" } },
          { type: "video_url", video_url: { url: "https://a/2.mp4" } },
          { type: "audio_url", audio_url: { url: "https://a/3.wav" } },
          { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } },
          { type: "input_image", image_url: "https://a/4.png" },
          { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
          { type: "image", source: { type: "url", url: "https://a/5.png" } },
        ),
      ),
    ).toEqual([
      ["image", "https://a/1.png"],
      ["video", "https://a/2.mp4"],
      ["audio", "https://a/3.wav"],
      ["audio", "UklGRg=="],
      ["image", "https://a/4.png"],
      ["image", PNG],
      ["image", "https://a/5.png"],
    ]);
  });

  it("are not what only looks like them", () => {
    expect(
      partsOf(
        user(
          { type: "text", text: '{"image_url":{"url":"https://a/1.png"}}' },
          { type: "text", text: "image_url", url: "https://a" },
          { image_url: ["a"], detail: "b" },
          { image_url: { url: "" } },
          { image_url: { other: { url: "deeper" } } },
          { type: "document", source: { type: "text", media_type: "text/plain", data: "plain text" } },
          'ends with a backslash \\" "image_url": "x',
        ),
      ),
    ).toEqual([]);
  });

  it("are found behind escapes and white space", () => {
    const text = '[ {"a" : "\\\\" , "b":"\\"{[" , "image_url"\n:\t{ "url" : "https:\\/\\/a\\/\\"1" } } ]';
    expect(partsOf(JSON.parse(text), text)).toEqual([["image", 'https:\\/\\/a\\/\\"1']]);
  });

  it("are not looked for within a string, which is what the prompts of completions are", () => {
    const body = new TextEncoder().encode('{"prompt":"[{\\"image_url\\":\\"x\\"}]"}');
    expect(mediaParts({ body, prompts: [[{ start: 11, end: body.length - 2 }]] })).toEqual([]);
  });

  it("are 1,024 at most, and none in objects that are absurdly deep", () => {
    const one = { image_url: "x" };
    expect(partsOf(user(...Array(MAX_PARTS + 5).fill(one)))).toHaveLength(1024);
    const deep = (levels: number): string => `${"[".repeat(levels)}{"image_url":"x"}${"]".repeat(levels)}`;
    expect(partsOf(undefined, deep(62))).toHaveLength(1);
    expect(partsOf(undefined, `[${deep(5000)},{"image_url":"y"}]`)).toEqual([["image", "y"]]);
  });
});
