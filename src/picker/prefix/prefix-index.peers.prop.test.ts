import fc from "fast-check";
import { describe, expect, it } from "vitest";
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

/** An obvious model: for each slot the blocks, the oldest first, and whether only peers have added them. */
class Model {
  readonly lists = Array.from({ length: SLOTS }, () => new Map<number, boolean>());

  add(blocks: readonly number[], slot: number, forPeer: boolean): { readonly taken: number; readonly news: number[] } {
    const list = this.lists[slot]!;
    const news: number[] = [];
    let taken = 0;
    for (const block of [...blocks].reverse()) {
      const known = list.get(block);
      if (known === undefined) news.unshift(block);
      else if (known && !forPeer) taken++;
      list.delete(block);
      list.set(block, forPeer && known !== false);
      if (list.size > CAPACITY) list.delete(list.keys().next().value!);
    }
    return { taken, news };
  }

  match(blocks: readonly number[], slot: number): number {
    const missing = blocks.findIndex((block) => !this.lists[slot]!.has(block));
    return missing < 0 ? blocks.length : missing;
  }
}

describe("a prefix index that hears of peers", () => {
  it("holds what an obvious model holds, tells new blocks, and knows which ones only peers had added", () => {
    const step = fc.record({
      blocks: fc.uniqueArray(fc.integer({ min: 1, max: 25 }), { maxLength: 10 }),
      slot: fc.nat(SLOTS - 1),
      forPeer: fc.boolean(),
      removes: fc.nat(15).map((draw) => draw === 0),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const index = new PrefixIndex();
        const model = new Model();
        const endpoints = Array.from({ length: SLOTS }, (_, slot) => ({ slot }));
        const capacity = { blocks: CAPACITY, tokens: Number.POSITIVE_INFINITY };
        const news = new BlockHashes();
        const found = new Float64Array(SLOTS);
        for (const { blocks, slot, forPeer, removes } of steps) {
          if (removes) {
            index.remove(slot);
            model.lists[slot]!.clear();
          }
          const hashes = hashesOf(blocks);
          const expected = model.add(blocks, slot, forPeer);
          if (forPeer) index.addForPeer(hashes, slot, 64, capacity);
          else {
            expect(index.add(hashes, slot, 64, capacity, news)).toBe(expected.taken);
            expect([...news.low.subarray(0, news.count)]).toEqual(expected.news);
          }
          index.match(hashes, endpoints, SLOTS, found);
          expect([...found]).toEqual(endpoints.map(({ slot: at }) => model.match(blocks, at)));
          expect(endpoints.map(({ slot: at }) => index.blocksOf(at))).toEqual(model.lists.map(({ size }) => size));
        }
      }),
      { numRuns: 300 },
    );
  });
});
