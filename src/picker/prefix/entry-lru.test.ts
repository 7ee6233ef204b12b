import { describe, expect, it } from "vitest";
import { EntryLru, isNotAfter, MARK, NEVER } from "./entry-lru.ts";

describe("entries of one endpoint by use", () => {
  it("takes no place of the arrays before for an entry after they shrank", () => {
    const list = new EntryLru();
    for (let entry = 1; entry <= 40; entry++) list.touch(entry, 1);
    // Now the next touch is expected at place 20, which is behind all entries once the arrays are smaller.
    list.touch(20, 1);
    list.touch(40, 1);
    while (list.size > 15) list.evict();
    list.trim();
    expect(list.touch(0, 1)).toBe(NEVER);
    expect([list.size, list.weight]).toEqual([16, 16]);
  });

  it("knows the turn in which each entry was used last, also after its arrays grew and shrank", () => {
    const list = new EntryLru();
    for (let entry = 1; entry <= 100; entry++) {
      list.nextTurn();
      list.touch(entry, 1);
      expect(list.turn).toBe(entry);
    }
    expect([list.oldestTurn, list.touch(1, 1), list.touch(1, 1), list.oldestTurn]).toEqual([1, 1, 100, 2]);
    while (list.size > 10) list.evict();
    list.trim();
    expect([list.oldestTurn, list.touch(95, 1), list.touch(50, 1)]).toEqual([92, 95, NEVER]);
  });

  it("keeps marks at their places in the order of use, also after its arrays grew and shrank", () => {
    const list = new EntryLru();
    list.nextTurn();
    list.touch(1, 2);
    list.addMark();
    for (let entry = 2; entry <= 80; entry++) list.touch(entry, 2);
    list.nextTurn();
    expect([list.refresh(1), list.refresh(99)]).toEqual([true, false]);
    for (let i = 0; i < 3; i++) list.addMark();
    expect([list.size, list.length, list.weight, list.touches]).toEqual([80, 84, 160, 80]);
    expect([list.evict(), list.evict(), list.size, list.length, list.weight]).toEqual([MARK, 2, 79, 82, 158]);
    while (list.length > 4) list.evict();
    list.trim();
    expect([list.evict(), list.evict(), list.size, list.length, list.weight]).toEqual([1, MARK, 0, 2, 0]);
  });

  it("an entry that was only refreshed keeps the turn of its last use", () => {
    const list = new EntryLru();
    for (const entry of [7, 8]) {
      list.nextTurn();
      list.touch(entry, 1);
    }
    list.nextTurn();
    list.refresh(7);
    expect([list.touch(7, 1), list.evict()]).toEqual([1, 8]);
  });

  it("compares turns also where they have begun again", () => {
    expect([isNotAfter(1, 2), isNotAfter(2, 2), isNotAfter(3, 2)]).toEqual([true, true, false]);
    expect([isNotAfter(2 ** 31 - 1, -(2 ** 31)), isNotAfter(-(2 ** 31), 2 ** 31 - 1)]).toEqual([true, false]);
  });
});
