import { describe, expect, it } from "vitest";
import { RequestCosts } from "./cost.ts";

const json = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));
const usage = (prompt_tokens: unknown): Uint8Array => json({ usage: { prompt_tokens } });
const text = "x".repeat(8000);
const prompt = (more: object = {}): Uint8Array => json({ model: "m", prompt: text, ...more });

/** What was learned from ten such answers. */
function learned(body: Uint8Array, answer: Uint8Array): number | undefined {
  const costs = new RequestCosts();
  for (let i = 0; i < 10; i++) costs.learn(body, answer, i);
  return costs.list()[0]?.bytesPerToken;
}

describe("what a request costs", () => {
  const costs = new RequestCosts();

  it("is one request, its bytes, or the tokens of its prompt and of its longest answer", () => {
    const body = json({ prompt: "x".repeat(400), max_tokens: 500, max_completion_tokens: 20 });
    expect([costs.of(body, "requests"), costs.of(body, "bytes"), costs.of(body, "tokens")]).toEqual([
      1,
      body.length,
      600,
    ]);
    expect([costs.of(undefined, "tokens"), costs.of(json({}), "tokens"), costs.of(Buffer.of(), "bytes")]).toEqual([
      1, 1, 1,
    ]);
  });

  it("counts text decoded, and all bytes of what is not a JSON object or is nested too deep", () => {
    expect(costs.of(Buffer.from(`{"prompt":"${"\\u0441".repeat(400)}"}`), "tokens")).toBe(200);
    expect(costs.of(Buffer.from("x".repeat(400)), "tokens")).toBe(100);
    const deep = Buffer.from(`{"messages":${"[".repeat(100_000)}${"]".repeat(100_000)}}`);
    expect(costs.of(deep, "tokens")).toBe(deep.length / 4);
  });
});

describe("bytes per token in the dispatcher", () => {
  it.each([1.5, 2, 8])("come to %d for the model whose answers say so, and to 4 for others", (ratio) => {
    const costs = new RequestCosts();
    for (let i = 0; i < 100; i++) costs.learn(prompt(), usage(Math.round(text.length / ratio)), i);
    expect(costs.list()).toMatchObject([{ model: "m", answers: expect.any(Number) }]);
    expect(costs.of(prompt(), "tokens") / (text.length / ratio)).toBeCloseTo(1, 1);
    expect(costs.of(prompt({ model: "other" }), "tokens")).toBe(2000);
  });

  it("are learned from texts in messages, decoded", () => {
    const messages = `[{"role":"user","content":[{"type":"text","text":"${"\\u0441".repeat(4000)}"}]}]`;
    // Two bytes a letter, and a token a letter.
    expect(learned(Buffer.from(`{"model":"m","messages":${messages}}`), usage(4000))).toBeCloseTo(2, 0);
  });

  it.each([
    ["an answer without usage", prompt(), json({ choices: [] })],
    ["an answer that is not JSON", prompt(), Buffer.from("data: {}")],
    ["no count", prompt(), usage("1000")],
    ["no model", json({ prompt: text }), usage(1000)],
    ["a request that is not JSON", Buffer.from(text), usage(1000)],
    ["a short prompt", json({ model: "m", prompt: "x".repeat(1000) }), usage(125)],
    ["token ids", json({ model: "m", prompt: [text, 1] }), usage(1000)],
    ["tools", prompt({ tools: [{ type: "function" }] }), usage(1000)],
    ["an image", prompt({ messages: [{ content: [{ type: "image_url", image_url: { url: text } }] }] }), usage(1000)],
    ["a request of more than a mebibyte", json({ model: "m", prompt: "x".repeat(2 ** 20) }), usage(131_072)],
    [
      "an answer of more than a mebibyte",
      prompt(),
      json({ usage: { prompt_tokens: 1000 }, text: "x".repeat(2 ** 20) }),
    ],
  ])("are not learned from %s", (_, body, answer) => {
    expect(learned(body, answer)).toBeUndefined();
  });

  it("stay between 1 and 16 whatever an answer claims", () => {
    expect(learned(prompt(), usage(300))).toBeLessThan(16);
    expect(learned(prompt(), usage(12_000))).toBeGreaterThanOrEqual(1);
  });
});
