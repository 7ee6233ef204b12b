import { spread } from "../../src/lab/study/result.ts";

/** One start of one program. */
export interface Start {
  /** Seconds of CPU, user and system, of all threads: until the ready line, or until the end of a program that ends. */
  readonly cpu: number;
  /** MiB of resident memory some time after the ready line; undefined for a program that ends. */
  readonly idle?: number;
  /** MiB of resident memory at most until then. */
  readonly peak?: number;
}

/** The most that a start may cost as a multiple of bare Node in the same run. */
export interface Limit {
  readonly cpu?: number;
  readonly idle?: number;
}

/** Seconds of CPU in the line that `time` of bash writes for the format `%3U %3S`. @throws Error for other text */
export function secondsOf(line: string): number {
  const [, user, system] = /^(\d+\.\d+) (\d+\.\d+)$/m.exec(line) ?? [];
  if (user === undefined || system === undefined) throw new Error(`not the times of a process: ${line}`);
  return Number(user) + Number(system);
}

/** Seconds of CPU of all threads. @param threads the files `schedstat` below `/proc/PID/task`, whose first number has nanoseconds */
export function secondsOfThreads(threads: readonly string[]): number {
  let sum = 0;
  for (const line of threads) sum += Number(/^\d+/.exec(line)?.[0] ?? 0);
  return sum / 1e9;
}

/** Whether both figures of `starts` are within `limit`. */
export function holds(starts: readonly Start[], bare: readonly Start[], limit: Limit): boolean {
  const { cpu, idle } = ratios(starts, bare);
  return cpu <= (limit.cpu ?? Number.POSITIVE_INFINITY) && (idle ?? 0) <= (limit.idle ?? Number.POSITIVE_INFINITY);
}

export const HEADING = "program    way             CPU seconds             x node   idle MiB  x node   peak MiB";

/** One line of the table. @param bare the starts of Node without a program */
export function line(
  name: string,
  way: string,
  starts: readonly Start[],
  bare: readonly Start[],
  limit?: Limit,
): string {
  const { min, median, max } = spread(starts.map(({ cpu }) => cpu));
  const times = ratios(starts, bare);
  const columns = [
    name.padEnd(10),
    way.padEnd(15),
    `${median.toFixed(3)} (${min.toFixed(3)}-${max.toFixed(3)})`.padEnd(20),
    times.cpu.toFixed(2).padStart(9),
  ];
  if (times.idle !== undefined) {
    const peak = spread(starts.map((start) => start.peak!)).median;
    const idle = spread(starts.map((start) => start.idle!)).median;
    columns.push(idle.toFixed(0).padStart(10), times.idle.toFixed(2).padStart(7), peak.toFixed(0).padStart(10));
  }
  if (limit !== undefined) {
    const wanted = [
      ...(limit.cpu === undefined ? [] : [`${limit.cpu} x its CPU`]),
      ...(limit.idle === undefined ? [] : [`${limit.idle} x its memory`]),
    ];
    columns.push(`  ${holds(starts, bare, limit) ? "holds" : "FAILS"}: at most ${wanted.join(", ")}`);
  }
  return columns.join(" ");
}

function ratios(starts: readonly Start[], bare: readonly Start[]): { readonly cpu: number; readonly idle?: number } {
  const median = (of: readonly Start[], figure: (start: Start) => number): number => spread(of.map(figure)).median;
  const cpu = median(starts, (start) => start.cpu) / median(bare, (start) => start.cpu);
  if (starts.some(({ idle }) => idle === undefined)) return { cpu };
  return { cpu, idle: median(starts, (start) => start.idle!) / median(bare, (start) => start.idle!) };
}
