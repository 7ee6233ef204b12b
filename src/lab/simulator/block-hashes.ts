const MIX = 0x85ebca6b;

/**
 * Chained hashes of the full blocks of a prompt: 64 bits per block as two words, each block's value depending on all
 * tokens before it and on `key`, so that equal hashes mean equal prefixes under the same model, adapter and salt.
 * @param blockSize tokens per block
 * @param key what must differ for prefixes not to be shared
 * @param limit blocks to hash at most (what a cache could hold)
 */
export function blockHashes(tokens: Uint32Array, blockSize: number, key: string, limit: number): Uint32Array {
  const out = new Uint32Array(2 * Math.min(Math.floor(tokens.length / blockSize), limit));
  const [first, second] = seedOf(key);
  chain(out, 0, tokens, blockSize, first, second);
  return out;
}

/**
 * The hashes of prompt and answer in one: those of the prompt, then those of the blocks that end in the answer.
 * @param hashes what `blockHashes` says of `prompt`, all of its full blocks
 * @param answerTokens how many tokens of `answer` count, at most its length
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
    // x ^ (x >>> 16) undoes itself: the state behind the last block of the prompt.
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
