import { readdirSync, readFileSync } from "node:fs";

/** What one line of `/proc/PID/stat` says. */
export interface ProcessLine {
  readonly pid: number;
  readonly parent: number;
  /** CPU time of all its threads in milliseconds, in steps of 10. */
  readonly cpu: number;
}

/** Milliseconds of a tick: Linux shows every process times in hundredths of a second. */
const TICK = 10;

/** Reads a line of `/proc/PID/stat`. The name of the program may hold blanks and parentheses: the last one ends it. */
export function parseStat(line: string): ProcessLine {
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  return {
    pid: Number.parseInt(line, 10),
    parent: Number(fields[1]),
    cpu: (Number(fields[11]) + Number(fields[12])) * TICK,
  };
}

/** CPU time by pid of `roots` and of all below them. */
export function treeOf(lines: readonly ProcessLine[], roots: readonly number[]): ReadonlyMap<number, number> {
  const wanted = new Set(roots);
  for (let before = -1; before !== wanted.size; ) {
    before = wanted.size;
    for (const { pid, parent } of lines) if (wanted.has(parent)) wanted.add(pid);
  }
  return new Map(lines.filter(({ pid }) => wanted.has(pid)).map(({ pid, cpu }) => [pid, cpu]));
}

/** Milliseconds of CPU between two readings. A process that began in between counts whole, one that ended not at all. */
export function spent(before: ReadonlyMap<number, number>, after: ReadonlyMap<number, number>): number {
  let sum = 0;
  for (const [pid, cpu] of after) sum += cpu - (before.get(pid) ?? 0);
  return sum;
}

/** Reads the CPU time of the processes `roots` and of all that they started. */
export function readTree(roots: readonly number[]): ReadonlyMap<number, number> {
  const lines: ProcessLine[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      lines.push(parseStat(readFileSync(`/proc/${name}/stat`, "latin1")));
    } catch {
      // It ended meanwhile.
    }
  }
  return treeOf(lines, roots);
}
