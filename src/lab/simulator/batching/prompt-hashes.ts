import { blockHashes } from "../block-hashes.ts";

/** Hashes under so many keys are kept for one piece of memory: enough for a few adapters, or a few prompts in one buffer. */
const KEPT_PER_BUFFER = 8;

interface Kept {
  readonly offset: number;
  readonly length: number;
  readonly blockSize: number;
  readonly key: string;
  readonly hashes: Uint32Array;
}

/** They live as long as the prompt does. */
const KEPT = new WeakMap<ArrayBufferLike, Kept[]>();

/**
 * As `blockHashes` of all full blocks, but the same memory is hashed only once: many requests share few prompts, and hashing
 * 7,200 tokens takes longer than everything else that is done about a request.
 * @param tokens nobody may change them from here on
 */
export function promptHashes(tokens: Uint32Array, blockSize: number, key: string): Uint32Array {
  let kept = KEPT.get(tokens.buffer);
  if (kept === undefined) {
    kept = [];
    KEPT.set(tokens.buffer, kept);
  }
  for (const one of kept) {
    if (
      one.offset === tokens.byteOffset &&
      one.length === tokens.length &&
      one.blockSize === blockSize &&
      one.key === key
    ) {
      return one.hashes;
    }
  }
  const hashes = blockHashes(tokens, blockSize, key, Number.POSITIVE_INFINITY);
  if (kept.length === KEPT_PER_BUFFER) kept.shift();
  kept.push({ offset: tokens.byteOffset, length: tokens.length, blockSize, key, hashes });
  return hashes;
}
