import { describe, expect, it } from "vitest";
import { HolderTable } from "./holder-table.ts";

describe("endpoints that hold a block", () => {
  it("finds no block beside the last one that has no holder any more", () => {
    const table = new HolderTable();
    const [first, second] = [table.hold(1, 1, 0), table.hold(2, 2, 0)];
    table.release(second, 0);
    expect([table.find(1, 1), table.find(2, 2), table.size]).toEqual([first, -1, 1]);
  });

  it("takes a guess only where it is the entry of the hash", () => {
    const table = new HolderTable();
    const [first, second] = [table.hold(1, 1, 0), table.hold(2, 2, 0)];
    expect(table.hold(1, 1, 1, first)).toBe(first);
    for (const guess of [second, -1, -7, 1000]) expect(table.hold(1, 1, 2, guess)).toBe(first);
    table.release(second, 0);
    const third = table.hold(3, 3, 0, second);
    expect([table.find(2, 2), table.find(3, 3), table.size]).toEqual([-1, third, 2]);
  });

  it("compares both halves of a hash beside the last one, too", () => {
    const table = new HolderTable();
    const first = table.hold(1, 1, 0);
    table.hold(2, 2, 0);
    expect([table.find(1, 1), table.find(2, 3)]).toEqual([first, -1]);
  });
});
