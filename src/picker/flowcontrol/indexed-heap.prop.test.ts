import { deepStrictEqual, strictEqual } from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { type HeapOrder, IndexedHeap } from "./indexed-heap.ts";

interface Entry {
  readonly id: number;
  key: number;
  place: number;
}

const before = (a: Entry, b: Entry): boolean => a.key < b.key || (a.key === b.key && a.id < b.id);
const ORDER: HeapOrder<Entry> = {
  before,
  place: ({ place }) => place,
  setPlace: (entry, place) => {
    entry.place = place;
  },
};

type Op =
  | { readonly kind: "add"; readonly key: number }
  | { readonly kind: "remove" | "removeFirst"; readonly which: number }
  | { readonly kind: "moved"; readonly which: number; readonly key: number };

const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("add"), key: fc.integer({ min: -9, max: 9 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom("remove", "removeFirst"), which: fc.nat(1000) }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("moved"), which: fc.nat(1000), key: fc.integer({ min: -9, max: 9 }) }),
  },
);

const play = (ops: readonly Op[]): void => {
  const heap = new IndexedHeap(ORDER);
  const known: Entry[] = [];
  const sorted = (): Entry[] => known.filter(({ place }) => place >= 0).sort((a, b) => (before(a, b) ? -1 : 1));
  for (const chosen of ops) {
    if (chosen.kind === "add") {
      const entry = { id: known.length, key: chosen.key, place: -1 };
      known.push(entry);
      heap.add(entry);
    } else if (chosen.kind === "moved") {
      const entry = known[chosen.which % Math.max(1, known.length)];
      if (entry === undefined) continue;
      entry.key = chosen.key;
      heap.moved(entry);
    } else {
      const entry = chosen.kind === "removeFirst" ? heap.first : known[chosen.which % Math.max(1, known.length)];
      const size = heap.size - (entry !== undefined && entry.place >= 0 ? 1 : 0);
      // The second time has no effect.
      for (const _ of [1, 2]) if (entry !== undefined) heap.remove(entry);
      strictEqual(heap.size, size);
      strictEqual(entry?.place ?? -1, -1);
    }
    const order = sorted();
    strictEqual(heap.size, order.length);
    strictEqual(heap.first, order[0]);
    deepStrictEqual(new Set(heap.entries), new Set(order));
    for (const [at, { place }] of heap.entries.entries()) strictEqual(place, at);
  }
  for (const expected of sorted()) {
    strictEqual(heap.first, expected);
    heap.remove(expected);
  }
  deepStrictEqual([heap.size, heap.first], [0, undefined]);
};

describe("indexed heap", () => {
  it("agrees with a sorted list, through additions, removals anywhere and changes of keys", () => {
    fc.assert(fc.property(fc.array(op, { maxLength: 60, size: "max" }), play), { numRuns: 300 });
  });
});
