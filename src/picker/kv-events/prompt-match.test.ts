import { describe, expect, it } from "vitest";
import type { MediaSpan } from "../../base/plugin/keys.ts";
import { EventIndex } from "../prefix/event-index.ts";
import { TokenChain } from "../prefix/token-chain.ts";
import { PromptMatch } from "./prompt-match.ts";

describe("PromptMatch", () => {
  it("makes the keys of whole blocks, prompt by prompt, and no more than asked for", () => {
    const match = new PromptMatch(new EventIndex({ weights: [1], maxPairs: 10, key: 7 }), new TokenChain(1, 2));
    const tokens = new Uint8Array(Int32Array.from({ length: 11 }, (_, n) => n).buffer);
    const prompts = [
      { start: 0, end: 5 * 4 },
      { start: 5 * 4, end: 11 * 4 },
    ];
    const prompt = { tokenized: { tokens, prompts } as never, model: "m", cacheSalt: "" };
    const keys = (most: number): string[] => {
      const list: string[] = [];
      match.keys(prompt, 2, most, (low, high) => list.push(`${low}:${high}`));
      return list;
    };
    expect(keys(100)).toHaveLength(2 + 3);
    expect(keys(4)).toEqual(keys(100).slice(0, 4));
    expect(keys(2)).toEqual(keys(100).slice(0, 2));
  });

  it("keys depend on the images that their tokens overlap, on those of earlier blocks, and on no later ones", () => {
    const match = new PromptMatch(new EventIndex({ weights: [1], maxPairs: 10, key: 7 }), new TokenChain(1, 2));
    const keysOf = (media: readonly MediaSpan[], cacheSalt = ""): string[] => {
      // The made-up tokens of an image are not what its engine hashes.
      const made = Int32Array.from({ length: 12 }, (_, n) => (n === 3 || n === 4 || n === 7 ? 99 + media.length : n));
      const tokenized = { tokens: new Uint8Array(made.buffer), prompts: [{ start: 0, end: 48 }], count: 12, media };
      const list: string[] = [];
      match.keys({ tokenized, model: "m", cacheSalt }, 2, 6, (low, high) => list.push(`${low}:${high}`));
      return list;
    };
    const own = Uint32Array.of(5, 5);
    const first: MediaSpan = { prompt: 0, offset: 3, tokens: own, hash: "one" };
    const second: MediaSpan = { prompt: 0, offset: 7, tokens: own.subarray(1), hash: "two" };
    const both = keysOf([first, second]);
    const sameUpTo = (other: readonly string[]): number => both.findIndex((key, i) => key !== other[i]);
    expect(sameUpTo(keysOf([first, second]))).toBe(-1);
    expect(sameUpTo(keysOf([{ ...first, hash: "other" }, second]))).toBe(1);
    expect(sameUpTo(keysOf([first, { ...second, hash: "other" }]))).toBe(3);
    expect(sameUpTo(keysOf([first, second], "salt"))).toBe(0);
    // An image of another prompt has no part in it.
    expect(sameUpTo(keysOf([first, second, { ...second, prompt: 1, offset: 0 }]))).toBe(-1);
  });
});
