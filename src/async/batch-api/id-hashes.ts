import { closeSync, fstatSync, openSync, readSync, rmSync, writeSync } from "node:fs";

/** Hashes in memory; beyond, they go to the disk. 8 bytes each. */
const IN_MEMORY = 1 << 20;
/** Files on the disk, by the upper bits of the hash: each has a share of the hashes that fits the memory again. */
const SHARES = 64;
const HASH_BYTES = 8;
/** The most hashes with more than one id that are told. */
const MOST_TWINS = 1000;

/**
 * Finds ids that occur twice among any number of them, in 16 MiB of memory: keeps hashes of 64 bits, sorts them, and writes them
 * to files when they are many. Two ids may share a hash, so the caller compares the ids of the hashes that `twins` returns. The
 * seeds come from chance, so nobody can make up such ids.
 */
export class IdHashes {
  readonly #path: string;
  readonly #seeds: readonly [number, number];
  readonly #inMemory: number;
  readonly #hashes: BigUint64Array;
  /** The same memory; the lower half of a hash comes first. */
  readonly #halves: Uint32Array;
  readonly #one = new BigUint64Array(1);
  readonly #oneHalves = new Uint32Array(this.#one.buffer);
  readonly #files: number[] = [];
  #count = 0;

  /** @param path of the files, to which a number is added @param seeds 32 bits each @param inMemory hashes, at least 1 */
  constructor(path: string, seeds: readonly [number, number], inMemory = IN_MEMORY) {
    this.#path = path;
    this.#seeds = seeds;
    this.#inMemory = inMemory;
    this.#hashes = new BigUint64Array(inMemory);
    this.#halves = new Uint32Array(this.#hashes.buffer);
  }

  add(id: string): void {
    if (this.#count === this.#inMemory) this.#spill();
    this.#hash(id, this.#halves, 2 * this.#count++);
  }

  /** The hash of an id, as `twins` has it. */
  hashOf(id: string): bigint {
    this.#hash(id, this.#oneHalves, 0);
    return this.#one[0]!;
  }

  /**
   * The hashes of ids that were added more than once, or share a hash; at most 1,000. Ends the collection.
   * @param breathe awaited between two stretches of work
   */
  async twins(breathe: () => Promise<void>): Promise<ReadonlySet<bigint>> {
    const found = new Set<bigint>();
    if (this.#files.length === 0) {
      collectTwins(this.#hashes.subarray(0, this.#count).sort(), found);
      return found;
    }
    this.#spill();
    for (const file of this.#files) {
      const { size } = fstatSync(file);
      const share = new BigUint64Array(size / HASH_BYTES);
      const bytes = new Uint8Array(share.buffer);
      for (let at = 0; at < size; ) at += readSync(file, bytes, at, size - at, at);
      collectTwins(share.sort(), found);
      await breathe();
    }
    return found;
  }

  /** Removes the files. */
  close(): void {
    for (const [share, file] of this.#files.entries()) {
      closeSync(file);
      rmSync(`${this.#path}.${share}`, { force: true });
    }
    this.#files.length = 0;
  }

  #spill(): void {
    for (let share = this.#files.length; share < SHARES; share++)
      this.#files.push(openSync(`${this.#path}.${share}`, "w+", 0o600));
    const sorted = this.#hashes.subarray(0, this.#count).sort();
    let from = 0;
    for (let share = 0; share < SHARES; share++) {
      const to = share + 1 === SHARES ? this.#count : firstAtLeast(sorted, BigInt(share + 1) << 58n);
      const bytes = new Uint8Array(sorted.buffer, from * HASH_BYTES, (to - from) * HASH_BYTES);
      for (let at = 0; at < bytes.length; ) at += writeSync(this.#files[share]!, bytes, at);
      from = to;
    }
    this.#count = 0;
  }

  /** Two multiplicative hashes with a final mix each (murmur3). */
  #hash(id: string, into: Uint32Array, at: number): void {
    let [a, b] = this.#seeds;
    for (let i = 0; i < id.length; i++) {
      const code = id.charCodeAt(i);
      a = Math.imul(a ^ code, 0x9e3779b1);
      a ^= a >>> 15;
      b = Math.imul(b + code, 0x85ebca6b);
      b ^= b >>> 13;
    }
    into[at] = mixed(a ^ id.length);
    into[at + 1] = mixed(b + id.length);
  }
}

function mixed(hash: number): number {
  let h = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

function collectTwins(sorted: BigUint64Array, into: Set<bigint>): void {
  for (let i = 1; i < sorted.length && into.size < MOST_TWINS; i++)
    if (sorted[i] === sorted[i - 1]) into.add(sorted[i]!);
}

/** The first place of a value of at least `bound`. */
function firstAtLeast(sorted: BigUint64Array, bound: bigint): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (sorted[middle]! < bound) from = middle + 1;
    else to = middle;
  }
  return from;
}
