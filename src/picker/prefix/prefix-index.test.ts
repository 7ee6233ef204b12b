import { describe, expect, it } from "vitest";
import { BlockHashes } from "./block-hash.ts";
import { type IndexCapacity, PrefixIndex, pairsWithin } from "./prefix-index.ts";

/** Hashes as the hasher would leave them, for chains written as numbers. */
function chains(...prompts: readonly (readonly number[])[]): BlockHashes {
  const hashes = new BlockHashes();
  hashes.reset(prompts.flat().length, prompts.length);
  for (const prompt of prompts) {
    for (const block of prompt) {
      hashes.low[hashes.count] = Math.imul(block, 0x9e3779b1);
      hashes.high[hashes.count++] = Math.imul(block, 0x85ebca77);
    }
    hashes.ends[hashes.prompts++] = hashes.count;
  }
  return hashes;
}

const blocks = (count: number): IndexCapacity => ({ blocks: count, tokens: Number.POSITIVE_INFINITY });
const run = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);

function matched(index: PrefixIndex, hashes: BlockHashes, slots: readonly number[]): number[] {
  const out = new Float64Array(slots.length);
  index.match(
    hashes,
    slots.map((slot) => ({ slot })),
    slots.length,
    out,
  );
  return [...out];
}

describe("prefix index", () => {
  it("allocates no more than the bytes that its number of pairs comes from", () => {
    const MIB = 1024 * 1024;
    for (const mib of [3, 4, 5, 6, 7, 8]) {
      const index = new PrefixIndex(pairsWithin(mib * MIB));
      for (let slot = 0; slot < 3; slot++)
        for (let at = 0; at < 80; at++) index.add(chains(run(1 + 1000 * (80 * slot + at), 1000)), slot, 1, blocks(1e6));
      expect(index.bytes).toBeLessThanOrEqual(mib * MIB);
      expect(index.size).toBeGreaterThan(0.9 * pairsWithin(mib * MIB));
    }
    expect(pairsWithin(undefined)).toBe(2 ** 22);
    expect(pairsWithin(0)).toBe(1);
  });

  it("S-50: a prompt routed once matches in whole at its endpoint, and nowhere else", () => {
    const index = new PrefixIndex();
    const prompt = chains(run(1, 20));
    expect(matched(index, prompt, [0, 1, 2])).toEqual([0, 0, 0]);
    index.add(prompt, 1, 1, blocks(100));
    expect(matched(index, prompt, [0, 1, 2])).toEqual([0, 20, 0]);
    expect(matched(index, chains([...run(1, 7), 99, ...run(9, 3)]), [2, 1])).toEqual([0, 7]);
  });

  it("counts a strict prefix only: an endpoint without the first block has nothing", () => {
    const index = new PrefixIndex();
    index.add(chains(run(1, 10)), 0, 1, blocks(100));
    index.add(chains(run(2, 9)), 1, 1, blocks(100));
    expect(matched(index, chains(run(1, 10)), [0, 1])).toEqual([10, 0]);
  });

  it("credits each endpoint until its own first miss", () => {
    const index = new PrefixIndex();
    for (const slot of [0, 1, 2, 40, 70]) index.add(chains(run(1, 2 + (slot % 7))), slot, 1, blocks(100));
    expect(matched(index, chains(run(1, 20)), [70, 40, 2, 1, 0, 5])).toEqual([2, 7, 4, 3, 2, 0]);
  });

  it("S-55: forgets tails before heads, so that what remains of an older prompt is its beginning", () => {
    const index = new PrefixIndex();
    const a = chains([1, 2, 3]);
    const b = chains([11, 12]);
    index.add(a, 0, 1, blocks(3));
    index.add(b, 0, 1, blocks(3));
    expect(matched(index, a, [0])).toEqual([1]);
    expect(matched(index, b, [0])).toEqual([2]);
  });

  it("S-55: a prompt longer than the capacity leaves its beginning and no litter", () => {
    const index = new PrefixIndex();
    index.add(chains(run(1, 5000)), 0, 1, blocks(10));
    expect([index.size, index.blocks]).toEqual([10, 10]);
    expect(matched(index, chains(run(1, 5000)), [0])).toEqual([10]);
    index.add(chains(run(10_001, 5000)), 0, 1, blocks(10));
    expect([index.size, index.blocks]).toEqual([10, 10]);
    expect(matched(index, chains(run(1, 5000)), [0])).toEqual([0]);
  });

  it("follows a changed capacity at the next request", () => {
    const index = new PrefixIndex();
    index.add(chains(run(1, 100)), 0, 1, blocks(1000));
    index.add(chains([1]), 0, 1, blocks(20));
    expect(index.size).toBe(20);
    expect(matched(index, chains(run(1, 100)), [0])).toEqual([20]);
    index.add(chains(run(1, 100)), 0, 1, blocks(1000));
    expect(matched(index, chains(run(1, 100)), [0])).toEqual([100]);
  });

  it("S-57: a removed endpoint takes its entries with it, and its slot starts empty again", () => {
    const index = new PrefixIndex();
    index.add(chains(run(1, 50)), 0, 1, blocks(100));
    index.add(chains(run(1, 30)), 1, 1, blocks(100));
    index.remove(0);
    index.remove(7);
    expect([index.size, index.blocks]).toEqual([30, 30]);
    expect(matched(index, chains(run(1, 50)), [0, 1])).toEqual([0, 30]);
    index.add(chains(run(1, 5)), 0, 1, blocks(100));
    expect(matched(index, chains(run(1, 50)), [0, 1])).toEqual([5, 30]);
  });

  it("adds up the prompts of a list", () => {
    const index = new PrefixIndex();
    index.add(chains(run(1, 4), run(101, 6)), 0, 1, blocks(100));
    index.add(chains(run(101, 2)), 1, 1, blocks(100));
    expect(matched(index, chains(run(1, 9), [], run(101, 9)), [0, 1])).toEqual([10, 2]);
  });

  it("shares the bound on pairs out evenly as endpoints join, at every moment", () => {
    const index = new PrefixIndex(1000);
    for (let slot = 0; slot < 10; slot++) {
      index.add(chains(run(slot * 10_000, 800)), slot, 1, blocks(31_250));
      expect(index.size).toBeLessThanOrEqual(1000);
    }
    for (let slot = 0; slot < 10; slot++)
      expect(matched(index, chains(run(slot * 10_000, 800)), [slot])).toEqual([100]);
  });

  it("stays within its stated memory, and gives back what shrunk lists no longer need", () => {
    const index = new PrefixIndex();
    const slots = 64;
    const capacity = 2000;
    for (let round = 0; round < 4; round++)
      for (let slot = 0; slot < slots; slot++)
        index.add(chains(run(1, 500), run(1_000_000 * (round + 1) + slot * 10_000, 1800)), slot, 1, blocks(capacity));
    const pairs = slots * capacity;
    expect(index.size).toBe(pairs);
    const shared = 500;
    const bound = 2 * (pairs * 48 + shared * (4 + slots / 8)) + 90_000;
    expect(index.bytes).toBeLessThanOrEqual(bound);
    const before = index.bytes;
    for (let slot = 0; slot < slots; slot++) index.add(chains([1]), slot, 1, blocks(10));
    expect(index.size).toBe(slots * 10);
    expect(before - index.bytes).toBeGreaterThan(pairs * 15);
  });
});
