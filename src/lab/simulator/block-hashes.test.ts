import fc from "fast-check";
import { expect, it } from "vitest";
import { blockHashes, extendHashes } from "./block-hashes.ts";

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
