import { Tokenizer } from "@huggingface/tokenizers";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SMALL_CONFIG, smallTokenizer } from "../../../test/support/small-tokenizer.ts";
import { ChunkCache } from "./chunk-cache.ts";
import { CHUNK_CHARACTERS, chunksOf, cutRulesOf, type TokenizerParts } from "./chunks.ts";
import { ModelTokenizer } from "./model-tokenizer.ts";

type Made = TokenizerParts & Readonly<Record<string, unknown>>;

function rulesOf(change: (tokenizer: Made) => object = () => ({})) {
  const whole = smallTokenizer() as unknown as Made;
  const changed = { ...whole, ...change(whole) } as Made;
  const library = new Tokenizer(changed as unknown as Record<string, unknown>, {});
  return cutRulesOf(changed, (text) => library.encode(text, { add_special_tokens: false }).ids);
}

const split = (Regex: string) => ({
  pre_tokenizer: {
    type: "Sequence",
    pretokenizers: [
      { type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false },
      { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
    ],
  },
});

describe("the places at which a text may be cut", () => {
  it("are both for a byte-pair encoding that splits texts as most models do", () => {
    expect(rulesOf()).toEqual({ line: true, word: true });
  });

  it("are none where a token of the vocabulary reaches over them", () => {
    const withToken = (token: string) => (made: Made) => ({
      model: { ...made.model, vocab: { ...(made.model.vocab as object), [token]: 9999 } },
    });
    expect(rulesOf(withToken("eĠ"))).toEqual({ line: true, word: false });
    expect(rulesOf(withToken("Ċa"))).toEqual({ line: false, word: true });
  });

  it("are none where the text is split across them", () => {
    // A word takes the space behind it, so that the next word misses it; a line feed takes a letter.
    expect(rulesOf(() => split("\\p{L}+ |\\s+\\p{L}+|[^#]")).word).toBe(false);
    expect(rulesOf(() => split("\\n\\p{L}| ?\\p{L}+|[^#]"))).toEqual({ line: false, word: true });
  });

  it.each([
    ["a look-behind", () => split("(?<=a) +|\\p{L}+|.")],
    ["an anchor", () => split("^\\s+|\\p{L}+|.")],
    ["another normalizer", () => ({ normalizer: { type: "Prepend", prepend: "x" } })],
    [
      "another pre-tokenizer",
      () => ({ pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "always" } }),
    ],
    [
      "a token that takes the space before it",
      (made: Made) => ({ added_tokens: [{ ...made.added_tokens![0], id: 700, content: "<x>", lstrip: true }] }),
    ],
  ])("are none with %s", (_, change) => {
    expect(rulesOf(change as (made: Made) => object)).toEqual({ line: false, word: false });
  });

  it("are the same for texts that begin alike, and lose nothing", () => {
    const rules = { line: true, word: true };
    const text = "the quick brown\nfox ".repeat(400);
    const chunks = chunksOf(text, rules);
    expect(chunks.join("")).toBe(text);
    expect(chunks.length).toBeGreaterThan(5);
    for (const chunk of chunks.slice(0, -1)) expect(chunk.length).toBeGreaterThanOrEqual(CHUNK_CHARACTERS);
    const longer = chunksOf(`${text.slice(0, 5000)}and now for something else`, rules);
    expect(longer.slice(0, 4)).toEqual(chunks.slice(0, 4));
    expect(chunksOf(text, { line: false, word: false })).toEqual([text]);
  });
});

describe("remembered beginnings", () => {
  const words = fc.constantFrom(
    ..."the |quick|\n|\n\n| |  |a|Z|7|é|e\u0301|語|🙂|.|,|'s|\t|\r\n|<|im_end|>|<|im_start|>|<|im_end|>|user\n|\u00a0|_|  \n".split(
      "|",
    ),
    ...["<|im_start|>", "<|im_end|>", "<think>", "one two three ".repeat(90)],
  );
  const text = fc.array(words, { maxLength: 60 }).map((parts) => parts.join(""));

  it("change no token", () => {
    const tokenizer = smallTokenizer();
    const files = { tokenizer, config: SMALL_CONFIG, model: {}, chatTemplate: undefined };
    const remembering = new ModelTokenizer(files, 2 ** 20, { format: "auto", kwargs: {} });
    const library = new Tokenizer(tokenizer, SMALL_CONFIG);
    fc.assert(
      fc.property(text, text, text, (beginning, one, other) => {
        for (const whole of [beginning + one, beginning + other, beginning + one])
          expect(remembering.text(whole, false)).toEqual(library.encode(whole, { add_special_tokens: false }).ids);
      }),
      { numRuns: 300 },
    );
    expect(remembering.cache.lookups.hits).toBeGreaterThan(500);
  });

  it("take no more memory than allowed, and the least recently used ones go first", () => {
    const cache = new ChunkCache(1000);
    const tokens = Uint32Array.of(1, 2, 3);
    // 200 + 2 * 10 + 4 * 3 bytes each: four fit.
    const names = Array.from({ length: 4 }, (_, i) => `${i}`.padEnd(10));
    for (const name of names) cache.put(name, tokens);
    expect(cache.bytes).toBe(4 * 232);
    expect(cache.get(names[0]!)).toBe(tokens);
    cache.put("x".repeat(10), tokens);
    expect(cache.bytes).toBe(4 * 232);
    expect(cache.get(names[1]!)).toBeUndefined();
    expect(cache.get(names[0]!)).toBe(tokens);
    cache.put("y".repeat(500), tokens);
    expect(cache.get("y".repeat(500))).toBeUndefined();
    expect(cache.bytes).toBe(4 * 232);
    cache.put(names[0]!, tokens);
    expect(cache.bytes).toBe(4 * 232);
    expect(cache.lookups).toEqual({ hits: 2, misses: 2 });
  });
});
