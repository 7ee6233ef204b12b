import { describe, expect, it } from "vitest";
import { parseStat, readTree, spent, treeOf } from "./cpu.ts";

/** A line as Linux writes it: 14 and 15 are the ticks in user and in system mode. */
const line = (pid: number, name: string, parent: number, user: number, system: number): string =>
  `${pid} (${name}) S ${parent} 1 1 0 -1 4194560 901 0 3 0 ${user} ${system} 700 900 20 0 11 0 5 1 2\n`;

describe("CPU time of a tree of processes", () => {
  it("adds user and system time, and not that of children that have ended", () => {
    expect(parseStat(line(42, "nginx", 7, 12, 30))).toEqual({ pid: 42, parent: 7, cpu: 420 });
  });

  it("reads past a name with blanks and parentheses", () => {
    expect(parseStat(line(42, "a) S 1 (b", 7, 1, 2))).toEqual({ pid: 42, parent: 7, cpu: 30 });
  });

  it("takes the roots and all below them, in any order", () => {
    const lines = [
      { pid: 4, parent: 3, cpu: 40 },
      { pid: 3, parent: 2, cpu: 30 },
      { pid: 2, parent: 1, cpu: 20 },
      { pid: 9, parent: 1, cpu: 90 },
    ];
    expect([...treeOf(lines, [2]).keys()].toSorted()).toEqual([2, 3, 4]);
    expect([...treeOf(lines, [4, 9]).values()]).toEqual([40, 90]);
  });

  it("counts a new process whole and a process that ended not at all", () => {
    const [before, after] = [new Map([[1, 100]]).set(2, 500), new Map([[1, 130]]).set(3, 20)];
    expect(spent(before, after)).toBe(50);
  });

  it("finds this process", () => {
    expect(readTree([process.pid]).get(process.pid)).toBeGreaterThanOrEqual(0);
  });
});
