import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { BlockHashes } from "./block-hash.ts";
import { PrefixIndex } from "./prefix-index.ts";

const SLOTS = 3;
const CAPACITY = 12;

function hashesOf(blocks: readonly number[]): BlockHashes {
  const hashes = new BlockHashes();
  hashes.reset(blocks.length, 1);
  for (const block of blocks) hashes.push(block, Math.imul(block, 0x9e3779b1));
  hashes.ends[0] = hashes.count;
  hashes.prompts = 1;
  return hashes;
}

/** What one endpoint holds: own blocks, and marks for placements of peers, in the order of their use, the oldest first. */
class Held {
  readonly order: (number | object)[] = [];
  /** Blocks that only peers have placed, with the mark of the last placement that named them. */
  readonly ofPeers = new Map<number, object>();
  #mark = {};

  get size(): number {
    return this.order.filter((one) => typeof one === "number").length + this.ofPeers.size;
  }

  has(block: number): boolean {
    return this.order.includes(block) || this.ofPeers.has(block);
  }

  add(blocks: readonly number[]): { readonly taken: number; readonly news: number[] } {
    const news: number[] = [];
    let taken = 0;
    for (const block of [...blocks].reverse()) {
      if (!this.#refresh(block)) {
        this.order.push(block);
        if (this.ofPeers.delete(block)) taken++;
        else news.unshift(block);
      }
      this.#shrink();
    }
    return { taken, news };
  }

  addOfPeer(blocks: readonly number[]): void {
    let isNew = false;
    const foreign = blocks.findIndex((block) => !this.order.includes(block));
    const own = foreign < 0 ? blocks.length : foreign;
    for (const block of blocks.slice(0, own).reverse()) this.#refresh(block);
    for (const block of blocks.slice(own)) {
      isNew ||= !this.ofPeers.has(block);
      this.ofPeers.set(block, this.#mark);
    }
    if (!isNew) return;
    this.order.push(this.#mark);
    this.#mark = {};
    this.#shrink();
  }

  #refresh(block: number): boolean {
    const at = this.order.indexOf(block);
    if (at < 0) return false;
    this.order.push(...this.order.splice(at, 1));
    return true;
  }

  #shrink(): void {
    while (this.size > CAPACITY && this.order.length > 0) {
      const oldest = this.order.shift()!;
      for (const [block, mark] of this.ofPeers) if (mark === oldest) this.ofPeers.delete(block);
    }
  }
}

describe("a prefix index that hears of peers", () => {
  it("holds what an obvious model holds, tells new blocks, and knows which ones only peers had placed", () => {
    const step = fc.record({
      blocks: fc.uniqueArray(fc.integer({ min: 1, max: 25 }), { maxLength: 10 }),
      slot: fc.nat(SLOTS - 1),
      forPeer: fc.boolean(),
      removes: fc.nat(15).map((draw) => draw === 0),
      matches: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const index = new PrefixIndex();
        const model = Array.from({ length: SLOTS }, () => new Held());
        const endpoints = model.map((_, slot) => ({ slot }));
        const capacity = { blocks: CAPACITY, tokens: Number.POSITIVE_INFINITY };
        const news = new BlockHashes();
        const found = new Float64Array(SLOTS);
        for (const { blocks: drawn, slot, forPeer, removes, matches } of steps) {
          // A single block, because the blocks of a prompt are a chain: where it ends for an endpoint, the endpoint holds none that follow.
          const blocks = matches ? drawn.slice(0, 1) : drawn;
          if (removes) {
            index.remove(slot);
            model[slot] = new Held();
          }
          const hashes = hashesOf(blocks);
          if (forPeer) {
            const { low, high } = hashesOf([99, ...blocks, 98]);
            index.addOfPeer({ low, high, from: 1, count: blocks.length }, slot, 64, capacity);
            model[slot]!.addOfPeer(blocks);
          } else {
            if (matches) index.match(hashes, endpoints, SLOTS, found);
            const expected = model[slot]!.add(blocks);
            expect(index.add(hashes, slot, 64, capacity, news)).toBe(expected.taken);
            expect([...news.low.subarray(0, news.count)]).toEqual(expected.news);
          }
          index.match(hashes, endpoints, SLOTS, found);
          const leading = model.map((held) => {
            const missing = blocks.findIndex((block) => !held.has(block));
            return missing < 0 ? blocks.length : missing;
          });
          expect([...found]).toEqual(leading);
          expect(endpoints.map(({ slot: at }) => index.blocksOf(at))).toEqual(model.map(({ size }) => size));
          expect(index.size).toBe(model.reduce((sum, { size }) => sum + size, 0));
        }
      }),
      { numRuns: 300 },
    );
  });

  it("knows one block at many endpoints, also at more than a set has places for", () => {
    const index = new PrefixIndex();
    const capacity = { blocks: 1000, tokens: Number.POSITIVE_INFINITY };
    const endpoints = Array.from({ length: 70 }, (_, slot) => ({ slot }));
    const hashes = hashesOf([1, 2, 3]);
    const { low, high } = hashes;
    for (const { slot } of endpoints) index.addOfPeer({ low, high, from: 0, count: 3 }, slot, 64, capacity);
    const found = new Float64Array(70);
    index.match(hashes, endpoints, 70, found);
    expect([...found]).toEqual(Array(70).fill(3));
    expect([index.size, index.blocksOf(69)]).toEqual([210, 3]);
    for (const { slot } of endpoints) index.remove(slot);
    index.match(hashes, endpoints, 70, found);
    expect([index.size, ...found]).toEqual(Array(71).fill(0));
  });

  it("keeps all that peers placed within the capacity, and takes no more memory than it says", () => {
    const index = new PrefixIndex();
    const capacity = { blocks: 20_000, tokens: Number.POSITIVE_INFINITY };
    const random = new SeededRandom(5);
    const words = (): Int32Array => Int32Array.from({ length: 5 }, () => random.below(2 ** 32));
    const placed: { readonly low: Int32Array; readonly high: Int32Array; readonly slot: number }[] = [];
    for (let i = 0; i < 40_000; i++) {
      const one = { low: words(), high: words(), slot: i % 4 };
      placed.push(one);
      index.addOfPeer({ ...one, from: 0, count: 5 }, one.slot, 64, capacity);
    }
    expect(index.size).toBe(80_000);
    let held = 0;
    const found = new Float64Array(1);
    placed.forEach(({ low, high, slot }, at) => {
      const hashes = new BlockHashes();
      hashes.reset(5, 1);
      for (let i = 0; i < 5; i++) hashes.push(low[i]!, high[i]!);
      hashes.ends[0] = hashes.count;
      hashes.prompts = 1;
      index.match(hashes, [{ slot }], 1, found);
      if (at < 24_000) expect(found[0]).toBe(0);
      else held += found[0]!;
    });
    expect(held).toBe(80_000);
    expect(index.bytes).toBeLessThan(120 * 80_000);
    for (let slot = 0; slot < 4; slot++) index.remove(slot);
    expect(index.size).toBe(0);
  });
});
