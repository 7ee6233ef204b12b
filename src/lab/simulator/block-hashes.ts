const MIX = 0x85ebca6b;

/**
 * Chained hashes of the full blocks of a prompt: 64 bits per block as two words. Each value depends on all tokens before it and
 * on `key`. So equal hashes mean equal prefixes under the same model, adapter and salt.
 * @param blockSize tokens per block
 * @param key prefixes are shared only between equal keys
 * @param limit the most blocks to hash, for example the size of a cache
 */
export function blockHashes(tokens: Uint32Array, blockSize: number, key: string, limit: number): Uint32Array {
  const out = new Uint32Array(2 * Math.min(Math.floor(tokens.length / blockSize), limit));
  const [first, second] = seedOf(key);
  chain(out, 0, tokens, blockSize, first, second);
  return out;
}

/**
 * The hashes of prompt and answer together: those of the prompt, then those of the blocks that end in the answer.
 * @param hashes result of `blockHashes` for all full blocks of `prompt`
 * @param answerTokens number of tokens of `answer` to hash, at most its length
 * @param key as in `blockHashes`
 */
export function extendHashes(
  hashes: Uint32Array,
  prompt: Uint32Array,
  answer: Uint32Array,
  answerTokens: number,
  blockSize: number,
  key: string,
): Uint32Array {
  const done = hashes.length >> 1;
  const total = Math.floor((prompt.length + answerTokens) / blockSize);
  if (total === done) return hashes;
  const rest = prompt.length - done * blockSize;
  const tail = new Uint32Array(rest + answerTokens);
  tail.set(prompt.subarray(done * blockSize));
  tail.set(answer.subarray(0, answerTokens), rest);
  const out = new Uint32Array(2 * total);
  out.set(hashes);
  let [first, second] = seedOf(key);
  if (done > 0) {
    // x ^ (x >>> 16) is its own inverse: it yields the state after the last block of the prompt.
    first = hashes[2 * done - 2]! ^ (hashes[2 * done - 2]! >>> 16);
    second = hashes[2 * done - 1]!;
  }
  chain(out, done, tail, blockSize, first, second);
  return out;
}

function seedOf(key: string): [first: number, second: number] {
  let first = 0x811c9dc5;
  let second = 0x9e3779b9;
  for (let i = 0; i < key.length; i++) {
    const unit = key.charCodeAt(i);
    first = Math.imul(first ^ unit, 0x01000193);
    second = Math.imul(second ^ unit, MIX) ^ (second >>> 15);
  }
  return [first, second];
}

/** Fills `out` from block `block` on with the hashes of `tokens`. */
function chain(
  out: Uint32Array,
  block: number,
  tokens: Uint32Array,
  blockSize: number,
  first: number,
  second: number,
): void {
  let token = 0;
  for (let slot = 2 * block; slot < out.length; slot += 2) {
    for (const end = token + blockSize; token < end; token++) {
      first = Math.imul(first ^ tokens[token]!, 0xcc9e2d51);
      first = (first << 13) | (first >>> 19);
      second = Math.imul(second ^ tokens[token]!, MIX);
      second ^= second >>> 15;
    }
    out[slot] = first ^ (first >>> 16);
    out[slot + 1] = second;
  }
}

/** Number of keys for which the hashes of one buffer are kept: enough for a few adapters, or a few prompts in one buffer. */
const KEPT_PER_BUFFER = 8;

interface Kept {
  readonly offset: number;
  readonly length: number;
  readonly blockSize: number;
  readonly key: string;
  readonly hashes: Uint32Array;
}

/** An entry lives as long as its prompt. */
const KEPT = new WeakMap<ArrayBufferLike, Kept[]>();

/**
 * As `blockHashes` of all full blocks, but hashes the same memory only once. Many requests share few prompts, and to hash 7,200
 * tokens takes longer than all other work on a request.
 * @param tokens must not change after the call
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
