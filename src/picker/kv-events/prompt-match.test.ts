import { describe, expect, it } from "vitest";
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
});
