import { deepStrictEqual, strictEqual } from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { IndexedHeap } from "./indexed-heap.ts";

interface Entry {
  readonly id: number;
  /** Whether it was added to another heap, which keeps it for good. */
  readonly elsewhere: boolean;
  key: number;
  place: number;
}

const before = (a: Entry, b: Entry): boolean => a.key < b.key || (a.key === b.key && a.id < b.id);

type Op =
  | { readonly kind: "add"; readonly key: number; readonly elsewhere: boolean }
  | { readonly kind: "remove" | "removeFirst"; readonly which: number }
  | { readonly kind: "moved"; readonly which: number; readonly key: number };

const op: fc.Arbitrary<Op> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("add"),
      key: fc.integer({ min: -9, max: 9 }),
      elsewhere: fc.constantFrom(false, false, false, true),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom("remove", "removeFirst"), which: fc.nat(1000) }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("moved"), which: fc.nat(1000), key: fc.integer({ min: -9, max: 9 }) }),
  },
);

const play = (ops: readonly Op[]): void => {
  const heap = new IndexedHeap<Entry>();
  const other = new IndexedHeap<Entry>();
  const known: Entry[] = [];
  const isIn = ({ place, elsewhere }: Entry): boolean => place >= 0 && !elsewhere;
  const sorted = (): Entry[] => known.filter(isIn).sort((a, b) => (before(a, b) ? -1 : 1));
  for (const chosen of ops) {
    if (chosen.kind === "add") {
      const entry = { id: known.length, elsewhere: chosen.elsewhere, key: chosen.key, place: -1 };
      known.push(entry);
      (entry.elsewhere ? other : heap).add(entry, entry.key, entry.id);
    } else if (chosen.kind === "moved") {
      const entry = known[chosen.which % Math.max(1, known.length)];
      if (entry === undefined) continue;
      if (!entry.elsewhere) entry.key = chosen.key;
      heap.moved(entry, chosen.key);
    } else {
      const entry = chosen.kind === "removeFirst" ? heap.first : known[chosen.which % Math.max(1, known.length)];
      const size = heap.size - (entry !== undefined && isIn(entry) ? 1 : 0);
      // The second time has no effect.
      for (const _ of [1, 2]) if (entry !== undefined) heap.remove(entry);
      strictEqual(heap.size, size);
      if (entry?.elsewhere !== true) strictEqual(entry?.place ?? -1, -1);
    }
    const order = sorted();
    strictEqual(heap.size, order.length);
    strictEqual(heap.first, order[0]);
    deepStrictEqual(new Set(heap.entries), new Set(order));
    for (const { entries } of [heap, other]) for (const [at, { place }] of entries.entries()) strictEqual(place, at);
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
