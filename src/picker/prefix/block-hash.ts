import type { ParsedBody } from "../../base/inference/request.ts";

/** The fields of a request that are hashed. */
export interface HashedRequest extends Pick<ParsedBody, "prompts" | "cacheSalt"> {
  readonly body: Uint8Array;
  readonly targetModel: string;
}

/** Bytes that count as one token without a tokenizer (scheduling 3.11, backend `estimate`). */
export const HASHED_BYTES_PER_TOKEN = 4;
/** The least tokens of a block: smaller sizes of the engine or the configuration do not count (scheduling 3.10.1). */
export const MIN_BLOCK_TOKENS = 64;

/** The hasher keeps scratch memory up to this size between requests. */
const KEPT_SCRATCH_BYTES = 1 << 20;
const KEPT_SEED_CHARACTERS = 256;
/** Above all UTF-16 units: it separates model and salt, so that no other pair of them gives the same sequence. */
const NO_CHARACTER = 0x10000;

// Odd constants with about half of their bits set: per lane, one for the state and one for the words.
const K0 = 0x9e3779b1 | 0;
const K1 = 0x85ebca77 | 0;
const K2 = 0xc2b2ae3d | 0;
const K3 = 0x27d4eb2f | 0;
const W0 = 0x165667b1 | 0;
const W1 = 0xcc9e2d51 | 0;
const W2 = 0x1b873593 | 0;
const W3 = 0xab0e9789 | 0;

/** Numbers up to which a list takes less time to make than an array outside of the heap. */
const MOST_PACKED_LIST = 256;

/** A copy of `BlockHashes`: low and high half of each block, then the ends of the prompts. */
export interface PackedHashes {
  readonly numbers: ArrayLike<number>;
  /** Blocks. */
  readonly count: number;
}

/** The 64-bit hashes of a request's blocks, as two 32-bit halves each. The arrays are reused and may be longer than `count`. */
export class BlockHashes {
  low = new Int32Array(64);
  high = new Int32Array(64);
  /** Number of blocks of all prompts together. */
  count = 0;
  /** The index after the last block of each prompt. */
  ends = new Int32Array(16);
  prompts = 0;

  /** Returns a copy that the next `hash` does not overwrite. */
  copy(): BlockHashes {
    const copy = new BlockHashes();
    copy.unpack(this.packed());
    return copy;
  }

  /** Adds a block; `reset` has made the room. */
  push(low: number, high: number): void {
    this.low[this.count] = low;
    this.high[this.count++] = high;
  }

  /** Turns the order of the blocks round. */
  reverse(): void {
    this.low.subarray(0, this.count).reverse();
    this.high.subarray(0, this.count).reverse();
  }

  /** The same in a form that costs little to make: nearly every request makes one, and few use it. */
  packed(): PackedHashes {
    const { low, high, count, ends, prompts } = this;
    const length = 2 * count + prompts;
    const numbers = length <= MOST_PACKED_LIST ? new Array<number>(length) : new Int32Array(length);
    for (let i = 0; i < count; i++) {
      numbers[2 * i] = low[i]!;
      numbers[2 * i + 1] = high[i]!;
    }
    for (let i = 0; i < prompts; i++) numbers[2 * count + i] = ends[i]!;
    return { numbers, count };
  }

  /** Makes these hashes those of `packed`. */
  unpack({ numbers, count }: PackedHashes): void {
    const prompts = numbers.length - 2 * count;
    this.reset(count, prompts);
    for (let i = 0; i < count; i++) {
      this.low[i] = numbers[2 * i]!;
      this.high[i] = numbers[2 * i + 1]!;
    }
    for (let i = 0; i < prompts; i++) this.ends[i] = numbers[2 * count + i]!;
    this.count = count;
    this.prompts = prompts;
  }

  /** Empties the list and makes room. */
  reset(blocks: number, prompts: number): void {
    this.count = 0;
    this.prompts = 0;
    if (blocks > this.low.length) {
      const size = powerOfTwo(blocks);
      this.low = new Int32Array(size);
      this.high = new Int32Array(size);
    }
    if (prompts > this.ends.length) this.ends = new Int32Array(powerOfTwo(prompts));
  }
}

/**
 * Hashes prompts block by block. A block's hash depends on every byte before it, on the target model and on the cache salt. So
 * equal hashes mean equal prefixes of one model and one tenant (scheduling 3.10.3). Each prompt of a request is hashed
 * separately, and a trailing partial block is included.
 *
 * The function is our own (docs/adr/0004-prefix-hash.md): four 32-bit lanes that take 16 bytes a round. A round is a bijection
 * of the state and, for a given state, of the words. So two texts that differ in only one round cannot give the same state.
 * Hashes never leave the process and differ between processes, unless replicas share what they know. Then all replicas of a picker
 * have the same secret keys.
 */
export class BlockHasher {
  readonly #key0: number;
  readonly #key1: number;
  #scratch = new Uint8Array(0);
  // The state of the chain at the beginning of a prompt.
  #a = 0;
  #b = 0;
  #c = 0;
  #d = 0;
  /** Target model and cache salt of that state; undefined = no state yet. */
  #model: string | undefined;
  #salt = "";

  /**
   * @param key0 32 secret random bits; with `key1` they keep clients from choosing texts with equal hashes
   * @param key1 32 more
   */
  constructor(key0: number, key1: number) {
    this.#key0 = key0 | 0;
    this.#key1 = key1 | 0;
  }

  /**
   * Replaces the contents of `out` with the hashes of the request's blocks.
   * @param blockTokens tokens per block, an integer from 1 up; a block has 4 times as many bytes
   * @param maxBlocks the most blocks of all prompts together; the rest of the request is ignored
   */
  hash(request: HashedRequest, blockTokens: number, maxBlocks: number, out: BlockHashes): void {
    const blockBytes = blockTokens * HASHED_BYTES_PER_TOKEN;
    const { body, prompts } = request;
    let blocks = 0;
    for (const ranges of prompts) blocks += Math.ceil(lengthOf(ranges) / blockBytes);
    out.reset(Math.min(blocks, maxBlocks), prompts.length);
    if (blocks === 0 || maxBlocks <= 0) return;
    this.#seed(request.targetModel, request.cacheSalt);
    const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
    for (const ranges of prompts) {
      const room = (maxBlocks - out.count) * blockBytes;
      if (room <= 0) return;
      if (ranges.length === 1) {
        const { start, end } = ranges[0]!;
        this.#chain(view, start, Math.min(end, start + room), blockBytes, out);
      } else {
        const joined = this.#join(body, ranges, Math.min(lengthOf(ranges), room));
        this.#chain(new DataView(joined.buffer), 0, joined.length, blockBytes, out);
      }
      out.ends[out.prompts++] = out.count;
    }
  }

  /** Starts the chain with the target model, a mark that is no character, and the cache salt. */
  #seed(model: string, salt: string): void {
    if (model === this.#model && salt === this.#salt) return;
    // Clients choose these names, so the hasher does not keep long ones.
    const keep = model.length + salt.length <= KEPT_SEED_CHARACTERS;
    this.#model = keep ? model : undefined;
    this.#salt = keep ? salt : "";
    let a = this.#key0;
    let b = this.#key1;
    for (let i = 0; i < model.length; i++) {
      a = (Math.imul(a ^ model.charCodeAt(i), K0) + b) | 0;
      b = ((b << 13) | (b >>> 19)) ^ a;
    }
    a = (Math.imul(a ^ NO_CHARACTER, K0) + b) | 0;
    b = ((b << 13) | (b >>> 19)) ^ a;
    for (let i = 0; i < salt.length; i++) {
      a = (Math.imul(a ^ salt.charCodeAt(i), K0) + b) | 0;
      b = ((b << 13) | (b >>> 19)) ^ a;
    }
    this.#a = mix(a);
    this.#b = mix(b ^ K1);
    this.#c = mix(a + Math.imul(b, K2));
    this.#d = mix(b + Math.imul(a, K3));
  }

  /** Appends the hashes of the blocks of bytes [start, end); the last block may be partial. */
  #chain(view: DataView, start: number, end: number, blockBytes: number, out: BlockHashes): void {
    const { low, high } = out;
    let a = this.#a;
    let b = this.#b;
    let c = this.#c;
    let d = this.#d;
    let count = out.count;
    let at = start;
    while (at < end) {
      const blockStart = at;
      const blockEnd = Math.min(at + blockBytes, end);
      const lastRound = blockEnd - 15;
      for (; at < lastRound; at += 16) {
        a = (a + Math.imul(view.getInt32(at, true), W0)) | 0;
        a = (Math.imul((a << 13) | (a >>> 19), K0) + b) | 0;
        b = (b + Math.imul(view.getInt32(at + 4, true), W1)) | 0;
        b = (Math.imul((b << 15) | (b >>> 17), K1) + c) | 0;
        c = (c + Math.imul(view.getInt32(at + 8, true), W2)) | 0;
        c = (Math.imul((c << 17) | (c >>> 15), K2) + d) | 0;
        d = (d + Math.imul(view.getInt32(at + 12, true), W3)) | 0;
        d = (Math.imul((d << 19) | (d >>> 13), K3) + a) | 0;
      }
      if (at < blockEnd) {
        // Zeros fill the last word. The hash contains the length of the block, so these zeros differ from zeros in the text.
        a = (a + Math.imul(wordAt(view, at, blockEnd), W0)) | 0;
        a = (Math.imul((a << 13) | (a >>> 19), K0) + b) | 0;
        b = (b + Math.imul(wordAt(view, at + 4, blockEnd), W1)) | 0;
        b = (Math.imul((b << 15) | (b >>> 17), K1) + c) | 0;
        c = (c + Math.imul(wordAt(view, at + 8, blockEnd), W2)) | 0;
        c = (Math.imul((c << 17) | (c >>> 15), K2) + d) | 0;
        d = (d + Math.imul(wordAt(view, at + 12, blockEnd), W3)) | 0;
        d = (Math.imul((d << 19) | (d >>> 13), K3) + a) | 0;
        at = blockEnd;
      }
      // The state runs over the whole prompt; each block boundary takes only a digest of it.
      const x = mix((mix(a ^ (blockEnd - blockStart)) + b) | 0);
      const y = mix((mix(c ^ x) + d) | 0);
      low[count] = mix((x + ((y << 16) | (y >>> 16))) | 0);
      high[count] = y;
      count++;
    }
    out.count = count;
  }

  /** Returns the first `length` bytes of the ranges as one sequence. */
  #join(body: Uint8Array, ranges: HashedRequest["prompts"][number], length: number): Uint8Array<ArrayBuffer> {
    let scratch = this.#scratch;
    if (length > scratch.length) {
      scratch = new Uint8Array(powerOfTwo(length));
      if (scratch.length <= KEPT_SCRATCH_BYTES) this.#scratch = scratch;
    }
    let at = 0;
    for (const { start, end } of ranges) {
      const taken = Math.min(end - start, length - at);
      scratch.set(body.subarray(start, start + taken), at);
      at += taken;
    }
    return scratch.subarray(0, length);
  }
}

function lengthOf(ranges: HashedRequest["prompts"][number]): number {
  let length = 0;
  for (const range of ranges) length += range.end - range.start;
  return length;
}

/** Returns up to four bytes from `at`, little endian; bytes from `end` on are zero. */
function wordAt(view: DataView, at: number, end: number): number {
  if (at + 4 <= end) return view.getInt32(at, true);
  let word = 0;
  for (let i = at, shift = 0; i < end; i++, shift += 8) word |= view.getUint8(i) << shift;
  return word;
}

/** A bijection of 32-bit integers. Every input bit changes about half of the output bits (murmur3's finaliser). */
export function mix(value: number): number {
  let x = value | 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return x ^ (x >>> 16);
}

function powerOfTwo(atLeast: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, atLeast)));
}
