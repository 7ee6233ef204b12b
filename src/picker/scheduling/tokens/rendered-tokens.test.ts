import { describe, expect, it } from "vitest";
import { renderedTokens } from "./rendered-tokens.ts";

/** Tokens per prompt. */
function read(answer: unknown): number[][] | undefined {
  const rendered = renderedTokens(answer);
  if (rendered === undefined) return undefined;
  const { tokens, prompts, count } = rendered;
  const view = new DataView(tokens.buffer, tokens.byteOffset, tokens.byteLength);
  const lists = prompts.map(({ start, end }) =>
    Array.from({ length: (end - start) / 4 }, (_, i) => view.getUint32(start + 4 * i, true)),
  );
  expect(count).toBe(lists.flat().length);
  return lists;
}

describe("the answer of a render server", () => {
  it("is one object for a chat, a list of them for completions", () => {
    expect(read({ request_id: "r", token_ids: [1, 4294967295, 0], features: null })).toEqual([[1, 4294967295, 0]]);
    expect(read([{ token_ids: [1, 2] }, { token_ids: [] }, { token_ids: [3] }])).toEqual([[1, 2], [], [3]]);
  });

  it("of earlier servers is a conversation and its prompt, or prompts with their texts", () => {
    expect(read([[{ role: "user", content: "hi" }], [{ prompt_token_ids: [1, 2] }]])).toEqual([[1, 2]]);
    expect(
      read([
        { prompt: "a", prompt_token_ids: [1] },
        { prompt: "b", prompt_token_ids: [2] },
      ]),
    ).toEqual([[1], [2]]);
  });

  it("has other placeholders for each image", () => {
    const chat = (...hashes: string[]) => ({
      token_ids: [5, 9, 9, 9, 6, 9, 9, 7],
      features: {
        mm_hashes: { image: hashes },
        mm_placeholders: {
          image: [
            { offset: 1, length: 3 },
            { offset: 5, length: 2 },
          ],
        },
      },
    });
    const [tokens] = read(chat("aa", "bb"))!;
    const [a, b] = [tokens![1], tokens![5]];
    expect(tokens).toEqual([5, a, a, a, 6, b, b, 7]);
    expect(new Set([5, 9, 6, 7, a, b]).size).toBe(6);
    expect(read(chat("aa", "cc"))![0]!.slice(0, 5)).toEqual(tokens!.slice(0, 5));
    expect(read(chat("aa", "cc"))![0]![5]).not.toBe(b);
  });

  it.each([
    ["text", { mm_hashes: 5, mm_placeholders: "x" }],
    ["no hashes", { mm_placeholders: { image: [{ offset: 0, length: 1 }] } }],
    ["no list", { mm_hashes: { image: ["a"] }, mm_placeholders: { image: {} } }],
    ["places that are none", { mm_hashes: { image: ["a", "b"] }, mm_placeholders: { image: [null, { offset: "0" }] } }],
    ["negative places", { mm_hashes: { image: ["a"] }, mm_placeholders: { image: [{ offset: -1, length: 1 }] } }],
    ["a place behind the end", { mm_hashes: { image: ["a"] }, mm_placeholders: { image: [{ offset: 9, length: 9 }] } }],
  ])("may have features of another shape, such as %s: the tokens count", (_what, features) => {
    expect(read({ token_ids: [1, 2], features })).toEqual([[1, 2]]);
  });

  it("without tokens says nothing", () => {
    expect(read([])).toBeUndefined();
    expect(read({ token_ids: [] })).toBeUndefined();
  });

  it.each([
    ["null", null],
    ["a text", "tokens"],
    ["an object without tokens", { error: { message: "no" } }],
    ["tokens that are texts", { token_ids: ["a"] }],
    ["tokens that are negative", { token_ids: [-1] }],
    ["tokens that are too large", { token_ids: [2 ** 32] }],
    ["tokens that are fractions", { token_ids: [1.5] }],
    ["a list of numbers", [1, 2, 3]],
    ["tokens that are no list", { token_ids: 5 }],
  ])("is refused when it is %s", (_what, answer) => {
    expect(() => renderedTokens(answer)).toThrow(expect.objectContaining({ code: "RENDER_ANSWER" }));
  });
});
