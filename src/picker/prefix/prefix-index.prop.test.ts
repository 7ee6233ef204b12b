import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BlockHashes } from "./block-hash.ts";
import { type IndexCapacity, PrefixIndex } from "./prefix-index.ts";

/** The index as the specification tells it: a map of sets, and per endpoint a Map whose order is the recency. */
class SlowIndex {
  readonly #maxPairs: number;
  readonly #lists = new Map<number, Map<string, number>>();

  constructor(maxPairs: number) {
    this.#maxPairs = maxPairs;
  }

  get size(): number {
    return [...this.#lists.values()].reduce((sum, list) => sum + list.size, 0);
  }

  get blocks(): number {
    return new Set([...this.#lists.values()].flatMap((list) => [...list.keys()])).size;
  }

  match(prompts: readonly (readonly string[])[], slot: number): number {
    const list = this.#lists.get(slot);
    let sum = 0;
    for (const prompt of prompts) {
      const miss = prompt.findIndex((hash) => !list?.has(hash));
      sum += miss < 0 ? prompt.length : miss;
    }
    return sum;
  }

  add(prompts: readonly (readonly string[])[], slot: number, blockTokens: number, capacity: IndexCapacity): void {
    if (!this.#lists.has(slot)) this.#lists.set(slot, new Map());
    const share = Math.max(1, Math.floor(this.#maxPairs / this.#lists.size));
    for (const list of this.#lists.values()) trim(list, { blocks: share, tokens: Number.POSITIVE_INFINITY });
    const list = this.#lists.get(slot)!;
    const limit = { ...capacity, blocks: Math.min(capacity.blocks, share) };
    trim(list, limit);
    for (const hash of prompts.flat().reverse()) {
      list.delete(hash);
      list.set(hash, Math.fround(blockTokens));
      trim(list, limit);
    }
  }

  remove(slot: number): void {
    this.#lists.delete(slot);
  }
}

function trim(list: Map<string, number>, { blocks, tokens }: IndexCapacity): void {
  const isOver = (): boolean =>
    list.size > blocks || (list.size > 1 && [...list.values()].reduce((sum, one) => sum + one, 0) > tokens);
  while (isOver()) list.delete(list.keys().next().value!);
}

function toHashes(prompts: readonly (readonly string[])[]): BlockHashes {
  const hashes = new BlockHashes();
  hashes.reset(prompts.flat().length, prompts.length);
  for (const prompt of prompts) {
    for (const hash of prompt) {
      const [low, high] = hash.split(":").map(Number);
      hashes.low[hashes.count] = low!;
      hashes.high[hashes.count++] = high!;
    }
    hashes.ends[hashes.prompts++] = hashes.count;
  }
  return hashes;
}

// Few distinct values, equal low halves with different high ones included: buckets and prefixes must meet.
const hash = fc
  .tuple(fc.constantFrom(0, 1, 64, -1, 128), fc.constantFrom(0, 1, 2, 3, 4, 5, -1, -2, 2 ** 26, 2 ** 27))
  .map(([a, b]) => `${a}:${b}`);
const stem = fc.constantFrom<string[]>([], ["0:0"], ["0:0", "0:1", "64:2"], ["7:7", "7:8"]);
const prompt = fc.tuple(stem, fc.array(hash, { maxLength: 12 })).map(([head, tail]) => [...head, ...tail]);
const prompts = fc.array(prompt, { minLength: 1, maxLength: 3 });
const slot = fc.constantFrom(0, 1, 2, 31, 32, 33, 64, 200);
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("add" as const),
      prompts,
      slot,
      // A request is matched before it is added, but not always: a retry adds it again.
      matched: fc.boolean(),
      blockTokens: fc.constantFrom(64, 32, 16 / 3, 128, 0.1),
      capacity: fc.record({
        blocks: fc.integer({ min: 1, max: 40 }),
        tokens: fc.constantFrom(1, 100, 700, 2000, Number.POSITIVE_INFINITY),
      }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("remove" as const), slot }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("match" as const),
      prompts,
      slots: fc.uniqueArray(slot, { minLength: 1 }),
    }),
  },
);

describe("prefix index against maps and sets", () => {
  it("S-50, S-55, S-57: agrees after any sequence of requests, removals and capacities", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), fc.constantFrom(3, 20, 100_000), (steps, maxPairs) => {
        const fast = new PrefixIndex(maxPairs);
        const slow = new SlowIndex(maxPairs);
        for (const action of steps) {
          if (action.kind === "add") {
            const hashes = toHashes(action.prompts);
            if (action.matched) fast.match(hashes, [{ slot: 0 }, { slot: action.slot }], 2, new Float64Array(2));
            fast.add(hashes, action.slot, action.blockTokens, action.capacity);
            slow.add(action.prompts, action.slot, action.blockTokens, action.capacity);
          } else if (action.kind === "remove") {
            fast.remove(action.slot);
            slow.remove(action.slot);
          } else {
            const out = new Float64Array(action.slots.length);
            const endpoints = action.slots.map((number) => ({ slot: number }));
            fast.match(toHashes(action.prompts), endpoints, endpoints.length, out);
            expect([...out]).toEqual(action.slots.map((number) => slow.match(action.prompts, number)));
          }
          expect([fast.size, fast.blocks]).toEqual([slow.size, slow.blocks]);
        }
      }),
      { numRuns: 500 },
    );
  });
});
