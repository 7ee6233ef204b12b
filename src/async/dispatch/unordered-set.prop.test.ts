import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Slotted, UnorderedSet } from "./unordered-set.ts";

describe("UnorderedSet", () => {
  it("holds what a set would hold, whatever comes and goes", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(7)), { maxLength: 200 }), (steps) => {
        const things: Slotted[] = Array.from({ length: 8 }, () => ({ slot: -1 }));
        const set = new UnorderedSet<Slotted>();
        const model = new Set<Slotted>();
        for (const [adds, which] of steps) {
          const thing = things[which]!;
          if (!adds) expect(set.delete(thing)).toBe(model.delete(thing));
          else if (!model.has(thing)) {
            set.add(thing);
            model.add(thing);
          }
          expect(set.size).toBe(model.size);
          expect(new Set(set.all())).toEqual(model);
          for (const each of things) expect(each.slot >= 0).toBe(model.has(each));
        }
      }),
    );
  });

  it("lets what it gave out be walked through while it changes", () => {
    const set = new UnorderedSet<Slotted>();
    const things = Array.from({ length: 5 }, () => ({ slot: -1 }));
    for (const thing of things) set.add(thing);
    for (const thing of set.all()) set.delete(thing);
    expect(set.size).toBe(0);
    expect(things.map(({ slot }) => slot)).toEqual([-1, -1, -1, -1, -1]);
  });
});
