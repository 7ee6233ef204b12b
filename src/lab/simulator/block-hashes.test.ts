import fc from "fast-check";
import { expect, it } from "vitest";
import { blockHashes, extendHashes, promptHashes } from "./block-hashes.ts";

it("the hashes of prompt and answer are those of both in one", () => {
  fc.assert(
    fc.property(
      fc.uint32Array({ maxLength: 20 }),
      fc.uint32Array({ maxLength: 20 }),
      fc.integer({ min: 1, max: 6 }),
      fc.nat(20),
      fc.constantFrom("", "adapter"),
      (prompt, answer, blockSize, cut, key) => {
        const length = Math.min(cut, answer.length);
        const whole = Uint32Array.from([...prompt, ...answer.subarray(0, length)]);
        const hashes = blockHashes(prompt, blockSize, key, Number.POSITIVE_INFINITY);
        const extended = extendHashes(hashes, prompt, answer, length, blockSize, key);
        expect(extended).toEqual(blockHashes(whole, blockSize, key, Number.POSITIVE_INFINITY));
        expect(extended.length).toBe(2 * Math.floor(whole.length / blockSize));
      },
    ),
  );
});

const TOKENS = Uint32Array.from({ length: 64 }, (_, i) => i * 7);
const all = Number.POSITIVE_INFINITY;

it("hashes the same memory once, whatever object shows it", () => {
  const hashes = promptHashes(TOKENS, 4, "");
  expect(hashes).toEqual(blockHashes(TOKENS, 4, "", all));
  expect(promptHashes(TOKENS, 4, "")).toBe(hashes);
  expect(promptHashes(new Uint32Array(TOKENS.buffer), 4, "")).toBe(hashes);
  expect(promptHashes(TOKENS.slice(), 4, "")).toEqual(hashes);
});

it("another part of the memory, block size or key has its own", () => {
  const part = TOKENS.subarray(8, 40);
  expect(promptHashes(part, 4, "")).toEqual(blockHashes(part, 4, "", all));
  expect(promptHashes(TOKENS.subarray(0, 8), 4, "").length).toBe(4);
  expect(promptHashes(TOKENS, 8, "")).toEqual(blockHashes(TOKENS, 8, "", all));
  expect(promptHashes(TOKENS, 4, "a")).toEqual(blockHashes(TOKENS, 4, "a", all));
});

it("keeps eight of them per piece of memory, the last ones", () => {
  const hashes = promptHashes(TOKENS, 4, "first");
  for (let i = 0; i < 7; i++) promptHashes(TOKENS, 4, `${i}`);
  expect(promptHashes(TOKENS, 4, "first")).toBe(hashes);
  promptHashes(TOKENS, 4, "ninth");
  const again = promptHashes(TOKENS, 4, "first");
  expect(again).not.toBe(hashes);
  expect(again).toEqual(hashes);
});
