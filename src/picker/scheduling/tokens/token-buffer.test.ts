import { describe, expect, it } from "vitest";
import { MAX_KEPT_TOKENS, TokenBuffer } from "./token-buffer.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("a buffer of tokens", () => {
  it("packs four bytes to a token, little endian, the last one padded with zeros; each prompt begins with a whole one", () => {
    const buffer = new TokenBuffer(5);
    buffer.beginPrompt();
    buffer.pack(bytes("xxabcdex"), 2, 7);
    buffer.beginPrompt();
    buffer.pack(bytes("f"), 0, 1);
    buffer.align();
    buffer.add(0xfedcba98, 2);
    const { tokens, prompts, count } = buffer.finish()!;
    expect(count).toBe(5);
    expect(prompts).toEqual([
      { start: 0, end: 8 },
      { start: 8, end: 20 },
    ]);
    const view = new DataView(tokens.buffer, tokens.byteOffset, tokens.byteLength);
    expect([0, 4, 8, 12, 16].map((at) => view.getUint32(at, true))).toEqual([
      0x64636261, 0x65, 0x66, 0xfedcba98, 0xfedcba98,
    ]);
  });

  it("is nothing without tokens", () => {
    const buffer = new TokenBuffer(0);
    buffer.beginPrompt();
    expect(buffer.finish()).toBeUndefined();
  });

  it("keeps 1,048,576 tokens and counts the others", () => {
    const buffer = new TokenBuffer(MAX_KEPT_TOKENS + 12);
    buffer.beginPrompt();
    buffer.add(7, MAX_KEPT_TOKENS - 1);
    buffer.pack(bytes("abcdefgh"), 0, 8);
    buffer.beginPrompt();
    buffer.add(8, 10);
    const { tokens, prompts, count } = buffer.finish()!;
    expect(count).toBe(MAX_KEPT_TOKENS + 11);
    expect(tokens.length).toBe(4 * 1_048_576);
    expect(new TextDecoder().decode(tokens.subarray(-4))).toBe("abcd");
    expect(prompts).toEqual([
      { start: 0, end: tokens.length },
      { start: tokens.length, end: tokens.length },
    ]);
  });

  it("keeps 256 prompts apart and joins all further ones to the last", () => {
    const buffer = new TokenBuffer(300);
    for (let i = 0; i < 300; i++) {
      buffer.beginPrompt();
      buffer.add(i);
    }
    const { prompts, count } = buffer.finish()!;
    expect(count).toBe(300);
    expect(prompts).toHaveLength(256);
    expect(prompts.at(-1)).toEqual({ start: 255 * 4, end: 300 * 4 });
  });
});
