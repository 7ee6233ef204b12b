import { describe, expect, it } from "vitest";
import { EntryLru } from "./entry-lru.ts";

describe("entries of one endpoint by use", () => {
  it("takes no place of the arrays before for an entry after they shrank", () => {
    const list = new EntryLru();
    for (let entry = 1; entry <= 40; entry++) list.touch(entry, 1);
    // Now the next touch is expected at place 20, which is behind all entries once the arrays are smaller.
    list.touch(20, 1);
    list.touch(40, 1);
    while (list.size > 15) list.evict();
    list.trim();
    expect(list.touch(0, 1)).toBe(true);
    expect([list.size, list.weight]).toEqual([16, 16]);
  });
});
