import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { EventIndex } from "./event-index.ts";
import { EXPECTED } from "./lanes.ts";

const made = (maxPairs = 1_000, weights = [1, 0.8]): EventIndex => new EventIndex({ weights, maxPairs, key: 7 });

/** Announces block `n` of an endpoint: its hash is n, its key is n as well. */
function add(index: EventIndex, slot: number, n: number, source = 0, tier = 0): boolean {
  return index.add(slot, source, tier, n, 1, n, n);
}

function matched(index: EventIndex, keys: readonly number[], slots: readonly number[]): number[] {
  const weighted = new Float64Array(slots.length);
  const pool = slots.map((slot) => ({ slot }));
  index.begin(pool, pool.length);
  for (const key of keys) if (!index.extend(key, key)) break;
  index.finish(pool, pool.length, { weighted, blocks: new Float64Array(slots.length) });
  return [...weighted];
}

describe("EventIndex", () => {
  it("keeps within its bound, and a publisher without end takes no room from others", () => {
    const index = made(300);
    for (let n = 0; n < 60; n++) add(index, 1, n);
    for (let n = 1_000; n < 3_000; n++) {
      add(index, 0, n);
      expect(index.size).toBeLessThanOrEqual(300);
    }
    expect(index.blocksOf(1)).toBe(60);
    expect(index.blocksOf(0)).toBe(240);
    expect(index.evictions).toBe(2_000 - 240);
  });

  it("counts what an engine announces as confirmed, also where its lane was one of expected blocks before", () => {
    const index = made();
    const found = (): [number, number] => {
      const [weighted, blocks, confirmed] = [new Float64Array(1), new Float64Array(1), new Float64Array(1)];
      index.begin([{ slot: 0 }], 1);
      for (let n = 0; n < 2 && index.extend(n, n); n++);
      index.finish([{ slot: 0 }], 1, { weighted, blocks, confirmed });
      return [blocks[0]!, confirmed[0]!];
    };
    for (const n of [0, 1]) add(index, 0, n, EXPECTED);
    expect(found()).toEqual([2, 0]);
    index.clear(0);
    expect(found()).toEqual([0, 0]);
    while (index.sweep(10));
    add(index, 0, 0);
    expect(found()).toEqual([1, 1]);
    for (const n of [0, 1]) add(index, 0, n, EXPECTED);
    expect(found()).toEqual([2, 1]);
  });

  it("a newcomer gets its share of a full index from the source with the most", () => {
    const index = made(300);
    for (let n = 0; n < 300; n++) add(index, 0, n);
    for (let n = 0; n < 400; n++) add(index, 1, n);
    expect(index.size).toBe(300);
    expect(index.blocksOf(1)).toBe(150);
    expect(index.blocksOf(0)).toBe(150);
  });

  it("forgets an endpoint at once, and its memory little by little", () => {
    const index = made();
    for (let n = 0; n < 100; n++) add(index, 0, n);
    index.clear(0);
    expect(matched(index, [0, 1, 2], [0])).toEqual([0]);
    expect(index.size).toBe(100);
    // The lane of the old blocks is not that of the new ones.
    add(index, 0, 0);
    expect(matched(index, [0, 1, 2], [0])).toEqual([1]);
    expect(index.sweep(40)).toBe(true);
    expect(index.size).toBe(61);
    expect(index.sweep(100)).toBe(false);
    expect(index.size).toBe(1);
    expect(index.blocks).toBe(1);
  });

  it("a block that is announced twice stays until it is taken back twice", () => {
    const index = made();
    expect([add(index, 0, 1), add(index, 0, 1)]).toEqual([true, false]);
    expect(index.remove(0, 0, 0, 1, 1)).toBe("kept");
    expect(matched(index, [1], [0])).toEqual([1]);
    expect(index.remove(0, 0, 0, 1, 1)).toBe("removed");
    expect(index.remove(0, 0, 0, 1, 1)).toBe("unknown");
    expect(matched(index, [1], [0])).toEqual([0]);
  });

  it("forgets again and again without a sweep, and needs no more memory", () => {
    const index = made(1_000_000);
    const cycle = (blocks: number): void => {
      for (let n = 0; n < blocks; n++) add(index, 0, n);
      index.clear(0);
    };
    for (let life = 0; life < 3_000; life++) cycle(1);
    expect(index.size).toBe(0);
    expect(index.bytes).toBeLessThan(100_000);
    for (let life = 0; life < 3_000; life++) cycle(100);
    expect(index.size).toBeLessThanOrEqual(64 * 100);
    expect(index.bytes).toBeLessThan(2 ** 20);
  });

  it("an engine that starts again and again needs no more lanes", () => {
    const index = made();
    add(index, 0, 0);
    const before = index.bytes;
    for (let life = 0; life < 500; life++) {
      index.clear(0);
      while (index.sweep(10)) {}
      add(index, 0, 0);
    }
    expect(index.bytes).toBe(before);
  });

  it("a rank that is cleared leaves the other rank of the endpoint", () => {
    const index = made();
    for (const n of [0, 1, 2]) add(index, 0, n, 0);
    for (const n of [0, 1]) add(index, 0, n, 1);
    expect(matched(index, [0, 1, 2], [0])).toEqual([3]);
    index.clear(0, 0);
    expect(matched(index, [0, 1, 2], [0])).toEqual([2]);
  });

  it("a hash that an engine uses for other tokens counts for those", () => {
    const index = made();
    index.add(0, 0, 0, 5, 5, 1, 1);
    index.add(0, 0, 0, 5, 5, 2, 2);
    expect(matched(index, [1], [0])).toEqual([0]);
    expect(matched(index, [2], [0])).toEqual([1]);
    expect(index.blocks).toBe(1);
  });

  it("an engine that gives equal tokens several hashes harms only what is known of itself", () => {
    const index = made(100_000);
    const random = new SeededRandom(9);
    for (let n = 0; n < 50; n++) add(index, 1, n);
    for (let i = 0; i < 20_000; i++) {
      const hash = random.below(300);
      // Few keys for many hashes, and a key that changes.
      if (random.below(2) === 0) index.add(0, 0, 0, hash, 1, random.below(40), 5);
      else index.remove(0, 0, 0, hash, 1);
    }
    expect(
      matched(
        index,
        Array.from({ length: 50 }, (_, n) => n),
        [0, 1],
      ),
    ).toEqual([0, 50]);
    index.clear(0);
    while (index.sweep(7)) {}
    expect(index.size).toBe(50);
    expect(index.blocks).toBe(50);
  });

  it("the best tier of a block counts", () => {
    const index = made();
    for (const n of [0, 1, 2]) add(index, 0, n, 0, 1);
    add(index, 0, 0, 0, 0);
    expect(matched(index, [0, 1, 2], [0])[0]).toBeCloseTo(1 + 0.8 + 0.8);
  });

  it("many endpoints and sources in random order end empty", () => {
    const index = made(100_000);
    const random = new SeededRandom(4);
    const live = new Map<string, [number, number]>();
    for (let i = 0; i < 20_000; i++) {
      const slot = random.below(130);
      const n = random.below(400);
      const name = `${slot}/${n}`;
      if (live.has(name)) {
        expect(index.remove(slot, 0, 0, n, 1)).toBe("removed");
        live.delete(name);
      } else {
        add(index, slot, n);
        live.set(name, [slot, n]);
      }
    }
    for (const [slot, n] of live.values()) index.remove(slot, 0, 0, n, 1);
    expect(index.size).toBe(0);
    expect(index.blocks).toBe(0);
  });
});
