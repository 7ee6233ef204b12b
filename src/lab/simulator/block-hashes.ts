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
