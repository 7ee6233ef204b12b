import { describe, expect, it } from "vitest";
import { requestOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import { BytesPerToken } from "../../../base/inference/bytes-per-token.ts";
import type { InferenceRequest } from "../../../base/inference/request.ts";
import { isText, textToLearnFrom } from "./learnable-text.ts";

const text = "some words of a prompt. ".repeat(200);
const chat = (content: unknown): InferenceRequest => requestOf(JSON.stringify([{ role: "user", content }]));

describe("the text that is learned from", () => {
  const learner = new BytesPerToken();

  it("is the prompts', decoded", () => {
    const request = chat(text);
    expect(textToLearnFrom(learner, request)).toBe(request.body.length);
    expect(textToLearnFrom(learner, { ...request, escapeBytes: 1000 })).toBe(request.body.length - 1000);
  });

  it("is none where a prompt is short, or longer than is looked through", () => {
    expect(textToLearnFrom(learner, requestOf("x".repeat(1023)))).toBeNaN();
    expect(textToLearnFrom(learner, requestOf("x".repeat(1024)))).toBe(1024);
    expect(textToLearnFrom(learner, { ...chat(text), escapeBytes: 4000 })).toBeNaN();
    expect(textToLearnFrom(learner, requestOf("x".repeat(2 ** 20)))).toBe(2 ** 20);
    expect(textToLearnFrom(learner, requestOf("x".repeat(2 ** 20 + 1)))).toBeNaN();
  });

  it.each([
    [
      "an image by its address",
      [
        { type: "text", text },
        { type: "image_url", image_url: { url: "http://x/a.png" } },
      ],
    ],
    ["an image's data", [{ type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(9000)}` } }]],
    [
      "a sound",
      [
        { type: "text", text },
        { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } },
      ],
    ],
    [
      "a film",
      [
        { type: "text", text },
        { type: "video_url", video_url: { url: "http://x/a.mp4" } },
      ],
    ],
  ])("is none where there is %s", (_name, content) => {
    expect(textToLearnFrom(learner, chat(content))).toBeNaN();
  });

  it("is none where tokens are given", () => {
    const ids = JSON.stringify(Array.from({ length: 2000 }, (_, i) => i));
    for (const list of [ids, `[ ${ids.slice(1)}`, `[${ids}]`.slice(1, -1)]) {
      expect(isText(requestOf(list), requestOf(list).body)).toBe(false);
      expect(textToLearnFrom(learner, requestOf(list))).toBeNaN();
    }
    expect(textToLearnFrom(learner, requestOf(text, { answerFormat: "vllm-generate" }))).toBeNaN();
    expect(textToLearnFrom(learner, requestOf(text, { answerFormat: "vllm-embed" }))).toBeNaN();
    // A text may begin with a bracket: the quote before it tells.
    const quoted = requestOf(`"[1] ${text}"`, { prompts: [[{ start: 1, end: 1000 + 100 }]] });
    expect(textToLearnFrom(learner, quoted)).toBe(1099);
  });

  describe("is looked for in the prompts of the first 32 requests, then in every sixteenth", () => {
    const request = chat(text);
    const looked = (learner: BytesPerToken, model: string): number =>
      Array.from({ length: 160 }, () => textToLearnFrom(learner, { ...request, targetModel: model })).filter(
        (one) => one > 0,
      ).length;

    it("model by model", () => {
      const many = new BytesPerToken();
      for (const model of ["a", "b"]) many.learn(model, 64_000, 8000, 0);
      expect([looked(many, "a"), looked(many, "b"), looked(many, "a")]).toEqual([40, 40, 10]);
    });

    it("in those of all models together whose answers say nothing", () => {
      const many = new BytesPerToken();
      expect([looked(many, "a"), looked(many, "b")]).toEqual([40, 10]);
      many.learn("b", 64_000, 8000, 0);
      expect([looked(many, "a"), looked(many, "b")]).toEqual([10, 40]);
    });

    it("and a prompt too short to learn from takes nobody's turn", () => {
      const many = new BytesPerToken();
      for (let i = 0; i < 100; i++) expect(textToLearnFrom(many, chat("short"))).toBeNaN();
      expect(looked(many, "m")).toBe(40);
    });
  });
});
