import { describe, expect, it } from "vitest";
import { EntryLru, isNotAfter, isOfPeer, NEVER } from "./entry-lru.ts";

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
      expect(list.turn).toBe(2 * entry);
    }
    expect([list.oldestTurn, list.touch(1, 1), list.touch(1, 1), list.oldestTurn]).toEqual([2, 2, 200, 4]);
    while (list.size > 10) list.evict();
    list.trim();
    expect([list.oldestTurn, list.touch(95, 1), list.touch(50, 1)]).toEqual([184, 190, NEVER]);
  });

  it("tells the turns of peers from its own, which count up together", () => {
    const list = new EntryLru();
    const turns = [false, true, true, false].map((forPeer) => {
      list.nextTurn(forPeer);
      return list.turn;
    });
    expect(turns.map(isOfPeer)).toEqual([false, true, true, false]);
    expect(turns.toSorted((a, b) => a - b)).toEqual(turns);
    expect(new Set([...turns, NEVER]).size).toBe(5);
  });

  it("compares turns also where they have begun again", () => {
    expect([isNotAfter(1, 2), isNotAfter(2, 2), isNotAfter(3, 2)]).toEqual([true, true, false]);
    expect([isNotAfter(2 ** 31 - 1, -(2 ** 31)), isNotAfter(-(2 ** 31), 2 ** 31 - 1)]).toEqual([true, false]);
  });
});
