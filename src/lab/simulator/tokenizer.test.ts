import fc from "fast-check";
import { expect, it } from "vitest";
import { tokenize, tokenizePieces } from "./tokenizer.ts";

/** FNV-1a over the UTF-8 bytes, the obvious way. */
function fnv(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

it("cuts words and other characters, each with the white space behind it", () => {
  expect(tokenizePieces("Hello, big  world! x_1\n")).toEqual(["Hello", ", ", "big  ", "world", "! ", "x_1\n"]);
  expect(tokenizePieces("  led")).toEqual(["  ", "led"]);
  expect(tokenizePieces("naïve 東京 🙂🙂?")).toEqual(["naïve ", "東京 ", "🙂🙂", "?"]);
  expect(tokenizePieces("")).toEqual([]);
});

it("knows the published FNV-1a values", () => {
  expect(Array.from(tokenize("a"))).toEqual([0xe40c292c]);
  expect(Array.from(tokenize("foobar"))).toEqual([0xbf9cf968]);
});

it("pieces joined are the text, and ids are FNV-1a of the pieces", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
      const pieces = tokenizePieces(text);
      expect(pieces.join("")).toBe(text);
      expect(Array.from(tokenize(text))).toEqual(pieces.map(fnv));
    }),
  );
});

it("agrees with its regular expression", () => {
  const chars = fc.constantFrom(..."ab_9 .,\n\t-é漢");
  fc.assert(
    fc.property(fc.string({ unit: chars, maxLength: 60 }), (text) => {
      expect(tokenizePieces(text)).toEqual(text.match(/^\s+|(?:[\w\u0080-\uffff]+|[^\w\s\u0080-\uffff])\s*/g) ?? []);
    }),
  );
});

it("reads a long prompt, growing as needed", () => {
  const text = ".".repeat(1_000_000);
  expect(tokenize(text)).toHaveLength(1_000_000);
});
