import { mix } from "./block-hash.ts";

// The numbers of `block-hash.ts` once more: V8 treats numbers of this file as constants, but not imported ones.
const W0 = 0x165667b1 | 0;
const W1 = 0xcc9e2d51 | 0;
const W2 = 0x1b873593 | 0;
const W3 = 0xab0e9789 | 0;
const K0 = 0x9e3779b1 | 0;
const K1 = 0x85ebca77 | 0;
const K2 = 0xc2b2ae3d | 0;
const K3 = 0x27d4eb2f | 0;

/** The most names of models whose first link is kept. The names come from clients and publishers. */
const MAX_ROOTS = 256;
/** Longer names are hashed each time. */
const MAX_KEPT_NAME = 256;

/** The first link of a chain. */
interface Root {
  readonly low: number;
  readonly high: number;
}

/**
 * Keys of token blocks, each made from the key of the block before it (scheduling 3.14). So the events of an engine can continue
 * a chain whose beginning came in an earlier event.
 *
 * The function is that of the approximate index (docs/adr/0004-prefix-hash.md) with the chain cut to 64 bits at each block. Its
 * keys are secret, so that no client or publisher can choose tokens with equal hashes. Hashes never leave the process.
 */
export class TokenChain {
  /** The key of the last block, 32 bits each. */
  low = 0;
  high = 0;
  readonly #key0: number;
  readonly #key1: number;
  readonly #seed: string;
  readonly #roots = new Map<string, Root>();

  /**
   * @param key0 32 secret random bits
   * @param key1 32 more
   * @param seed part of each chain's first link
   */
  constructor(key0: number, key1: number, seed = "") {
    this.#key0 = key0 | 0;
    this.#key1 = key1 | 0;
    this.#seed = seed;
  }

  /** Begins a chain. @param model the model or the adapter that computes the tokens */
  begin(model: string): void {
    let root = this.#roots.get(model);
    if (root === undefined) {
      this.resume(this.#key0, this.#key1);
      this.mixText(this.#seed);
      this.mixText(model);
      root = { low: this.low, high: this.high };
      if (model.length <= MAX_KEPT_NAME) {
        if (this.#roots.size >= MAX_ROOTS) this.#roots.clear();
        this.#roots.set(model, root);
      }
    }
    this.low = root.low;
    this.high = root.high;
  }

  /** Continues the chain behind the block of this key. */
  resume(low: number, high: number): void {
    this.low = low;
    this.high = high;
  }

  /**
   * Mixes a text into the link that the next block continues from: a cache salt, or the hash of an image. Two texts, one after the
   * other, differ from their concatenation.
   */
  mixText(text: string): void {
    let a = (this.low ^ this.#key1) | 0;
    let b = (this.high + this.#key0) | 0;
    for (let i = 0; i < text.length; i++) {
      a = (Math.imul(a ^ text.charCodeAt(i), K0) + b) | 0;
      b = ((b << 13) | (b >>> 19)) ^ a;
    }
    this.low = mix((a ^ Math.imul(text.length + 1, K2)) | 0);
    this.high = mix((b + this.low) | 0);
  }

  /** Adds a block: tokens [start, end). */
  add(tokens: Int32Array, start: number, end: number): void {
    let a = (this.low ^ this.#key0) | 0;
    let b = (this.high + this.#key1) | 0;
    let c = Math.imul(a, K2) ^ b;
    let d = (Math.imul(b, K3) + a) | 0;
    let at = start;
    for (const whole = end - 3; at < whole; at += 4) {
      a = (a + Math.imul(tokens[at]!, W0)) | 0;
      a = (Math.imul((a << 13) | (a >>> 19), K0) + b) | 0;
      b = (b + Math.imul(tokens[at + 1]!, W1)) | 0;
      b = (Math.imul((b << 15) | (b >>> 17), K1) + c) | 0;
      c = (c + Math.imul(tokens[at + 2]!, W2)) | 0;
      c = (Math.imul((c << 17) | (c >>> 15), K2) + d) | 0;
      d = (d + Math.imul(tokens[at + 3]!, W3)) | 0;
      d = (Math.imul((d << 19) | (d >>> 13), K3) + a) | 0;
    }
    for (; at < end; at++) {
      a = (a + Math.imul(tokens[at]!, W0)) | 0;
      a = (Math.imul((a << 13) | (a >>> 19), K0) + d) | 0;
      d = (Math.imul(d ^ a, K1) + c) | 0;
    }
    const x = mix((mix(a ^ (end - start)) + b) | 0);
    const y = mix((mix(c ^ x) + d) | 0);
    this.low = mix((x + ((y << 16) | (y >>> 16))) | 0);
    this.high = y;
  }
}
