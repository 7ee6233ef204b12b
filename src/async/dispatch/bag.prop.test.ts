import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Bag, type Bagged } from "./bag.ts";

describe("Bag", () => {
  it("holds what a set would hold, whatever comes and goes", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(7)), { maxLength: 200 }), (steps) => {
        const things: Bagged[] = Array.from({ length: 8 }, () => ({ slot: -1 }));
        const bag = new Bag<Bagged>();
        const model = new Set<Bagged>();
        for (const [adds, which] of steps) {
          const thing = things[which]!;
          if (!adds) expect(bag.delete(thing)).toBe(model.delete(thing));
          else if (!model.has(thing)) {
            bag.add(thing);
            model.add(thing);
          }
          expect(bag.size).toBe(model.size);
          expect(new Set(bag.all())).toEqual(model);
          for (const each of things) expect(each.slot >= 0).toBe(model.has(each));
        }
      }),
    );
  });

  it("lets what it gave out be walked through while it changes", () => {
    const bag = new Bag<Bagged>();
    const things = Array.from({ length: 5 }, () => ({ slot: -1 }));
    for (const thing of things) bag.add(thing);
    for (const thing of bag.all()) bag.delete(thing);
    expect(bag.size).toBe(0);
    expect(things.map(({ slot }) => slot)).toEqual([-1, -1, -1, -1, -1]);
  });
});
