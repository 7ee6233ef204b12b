import { describe, expect, it } from "vitest";
import { requestOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import type { InferenceRequest } from "../../../base/inference/request.ts";
import type { TokenizedPrompt } from "../../../base/plugin/keys.ts";
import { TokenEstimate } from "./estimate.ts";
import { estimateParameters } from "./media-tokens.ts";
import { MAX_KEPT_TOKENS } from "./token-buffer.ts";

const STATIC = { image: { mode: "static", static: { staticToken: 3 } } };

function estimate(request: InferenceRequest, parameters: object = {}): TokenizedPrompt | undefined {
  return new TokenEstimate(estimateParameters.parse(parameters), 1, 2).of(request);
}

/** A chat that says `texts` with an image between each two of them; tools before it if given. */
function chat(texts: readonly string[], url: string, tools = ""): InferenceRequest {
  const image = { type: "image_url", image_url: { url } };
  const content = texts.flatMap((text, i) => (i === 0 ? [{ type: "text", text }] : [image, { type: "text", text }]));
  const messages = JSON.stringify([{ role: "user", content }]);
  const request = requestOf(`${tools}${messages}`);
  const toolRange = { start: 0, end: tools.length };
  const messageRange = { start: tools.length, end: request.body.length };
  return { ...request, prompts: [tools === "" ? [messageRange] : [toolRange, messageRange]] };
}

const words = ({ tokens }: TokenizedPrompt): number[] =>
  Array.from({ length: tokens.length / 4 }, (_, i) =>
    new DataView(tokens.buffer).getUint32(tokens.byteOffset + 4 * i, true),
  );

describe("tokens without a tokenizer", () => {
  it("are the bytes themselves where there are only texts and sounds: nothing is written", () => {
    expect(estimate(requestOf("once upon a time"))).toBeUndefined();
    expect(estimate(requestOf('[{"role":"user","content":"hi"}]'))).toBeUndefined();
    expect(estimate(requestOf('[{"content":[{"input_audio":{"data":"AAAA","format":"wav"}}]}]'))).toBeUndefined();
  });

  it("have as many copies of one token in place of an image as it is estimated to take", () => {
    const request = chat(["a", "b"], "https://a/1.png");
    const { tokens, prompts, count } = estimate(request, STATIC)!;
    const text = new TextDecoder().decode(request.body);
    const [before, after] = text.split("https://a/1.png") as [string, string];
    const padded = Math.ceil(before.length / 4);
    expect(count).toBe(padded + 3 + Math.ceil(after.length / 4));
    expect(prompts).toEqual([{ start: 0, end: 4 * count }]);
    const all = words({ tokens, prompts, count });
    expect(new Set(all.slice(padded, padded + 3)).size).toBe(1);
    expect(new TextDecoder().decode(tokens.subarray(0, before.length))).toBe(before);
    expect(new TextDecoder().decode(tokens.subarray(4 * (padded + 3))).replaceAll("\0", "")).toBe(after);
  });

  it("count text by what is known of the model, and images as they are", () => {
    const request = chat(["a".repeat(8000), "b"], "https://a/1.png");
    const plain = estimate(request, STATIC)!;
    const text = plain.count - 3;
    expect(plain.units).toBe(plain.count);
    for (const [bytesPerToken, escapeBytes] of [
      [8, 0],
      [2, 0],
      [4, 4000],
    ] as const) {
      const other = estimate({ ...request, bytesPerToken, escapeBytes }, STATIC)!;
      const wanted = (text * 4 * (escapeBytes === 0 ? 1 : 0.5)) / bytesPerToken;
      expect(Math.abs(other.count - 3 - wanted) / wanted).toBeLessThan(0.02);
      expect({ ...other, count: plain.count }).toEqual(plain);
    }
  });

  it("differ for different images, and only from there on; the same image is the same again", () => {
    const one = words(estimate(chat(["same text", "b"], "https://a/1.png"), STATIC)!);
    const two = words(estimate(chat(["same text", "b"], "https://a/2.png"), STATIC)!);
    expect(words(estimate(chat(["same text", "b"], "https://a/1.png"), STATIC)!)).toEqual(one);
    const first = one.findIndex((token, i) => token !== two[i]);
    expect(two.slice(0, first)).toEqual(one.slice(0, first));
    expect(one.filter((token, i) => token !== two[i])).toHaveLength(3);
  });

  it("take the size of an image that comes along from its head: far fewer tokens than it has bytes", () => {
    const head = Buffer.from([
      0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 4, 0, 0, 0, 4, 0,
    ]);
    const png = Buffer.concat([head, Buffer.alloc(300_000, 7)]).toString("base64");
    const { count } = estimate(chat(["a", "b"], `data:image/png;base64,${png}`))!;
    expect(count).toBeGreaterThan(1024);
    expect(count).toBeLessThan(1024 + 100);
    expect(estimate(chat(["a", "b"], "https://a/1.png"))!.count).toBeLessThan(225 + 100);
  });

  it("begin with the tools, as one sequence with the messages", () => {
    const tools = '[{"name":"t"}]';
    const { tokens } = estimate(chat(["a", "b"], "https://a/1.png", tools), STATIC)!;
    expect(new TextDecoder().decode(tokens)).toMatch(/^\[\{"name":"t"\}\]\[\{"role":"user"/);
  });

  it("are kept apart per prompt", () => {
    const body = new TextEncoder().encode('{"image_url":"x"}{"image_url":"y"}plain');
    const ranges = [
      { start: 0, end: 17 },
      { start: 17, end: 34 },
      { start: 34, end: 39 },
    ];
    const { prompts, count } = estimate({ ...requestOf(""), body, prompts: ranges.map((range) => [range]) }, STATIC)!;
    // {"image_url":" padded to 4, 3 for the image, "} padded to 1; `plain` makes 2.
    expect(prompts).toEqual([
      { start: 0, end: 32 },
      { start: 32, end: 64 },
      { start: 64, end: 72 },
    ]);
    expect(count).toBe(18);
  });

  it("are bounded however many images a request has", () => {
    const content = Array(1024).fill({ type: "image_url", image_url: { url: "https://a/1.png" } });
    const request = requestOf(JSON.stringify([{ role: "user", content }]));
    const huge = { image: { mode: "static", static: { staticToken: 65_536 } } };
    const { tokens, count } = estimate(request, huge)!;
    expect(tokens.length).toBe(4 * MAX_KEPT_TOKENS);
    expect(count).toBeGreaterThan(1024 * 65_536);
  });
});
