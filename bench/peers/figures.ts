/** What the client measured in one run, as it prints it. Times in microseconds. */
export interface Load {
  readonly seconds: number;
  readonly done: number;
  readonly directDone: number;
  readonly errors: number;
  /** The first error. */
  readonly error: string;
  /** Arrivals that still waited for a connection at the end. */
  readonly waiting: number;
  readonly p50: number;
  readonly p99: number;
  /** Of fewer than 1,000 answers it is the slowest one. */
  readonly p999: number;
  readonly directP50: number;
  readonly directP99: number;
}

/** One case of one subject in one round. */
export interface Cell {
  /** Requests per second of CPU: what one core does. */
  readonly perCore: number;
  /** The share of its core that the subject used in the closed loop. */
  readonly busy: number;
  /** Microseconds in which all but one in a hundred answers of the closed loop came; of a stream the first byte. */
  readonly fullP99: number;
  /** The same, all but one in a thousand; undefined of fewer than 1,000 answers. */
  readonly fullP999?: number;
  /** Microseconds of CPU of a request in the open loop. */
  readonly cpu: number;
  /** What the subject adds to an answer in the open loop, microseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Microseconds, with the time of the model server; undefined of fewer than 1,000 answers. */
  readonly p999?: number;
  /** Requests that got no answer of 200, of both loops, and what the first one got. */
  readonly errors: number;
  readonly error: string;
  /** The open loop ended with a queue: its latencies mean nothing. */
  readonly overrun: boolean;
  /** Resident MiB of the subject after the closed loop. */
  readonly mib: number;
  /** Cores that other programs used meanwhile, in the loop in which they used more. */
  readonly others: number;
}

/** A run of the client, and the milliseconds of CPU that the subject spent meanwhile. */
export interface Measured {
  readonly load: Load;
  readonly cpuMs: number;
  /** Resident MiB of the subject at the end. */
  readonly mib: number;
  /** Cores that programs outside of the benchmark used. */
  readonly others: number;
}

/** Cores that others may use: above, a cell does not count. */
export const MOST_OTHERS = 0.2;

/** The cells that count. */
export function valid(cells: readonly Cell[]): readonly Cell[] {
  return cells.filter(({ others }) => others <= MOST_OTHERS);
}

/** Arrivals of so many milliseconds that may wait at the end of an open loop. */
const QUEUE_MS = 50;

/** Answers from which a 99.9th percentile counts. */
const ENOUGH = 1000;

/** The figures of both loops; undefined when no request ended in one of them. */
export function cellOf(closed: Measured, open: Measured): Cell | undefined {
  if (closed.load.done === 0 || open.load.done === 0) return undefined;
  const { load } = open;
  const arrivals = (load.done + load.directDone) / load.seconds;
  return {
    // A subject that used no tick of CPU time used less than one.
    perCore: (closed.load.done * 1000) / Math.max(10, closed.cpuMs),
    busy: closed.cpuMs / 1000 / closed.load.seconds,
    fullP99: closed.load.p99,
    ...(closed.load.done < ENOUGH ? {} : { fullP999: closed.load.p999 }),
    cpu: (open.cpuMs * 1000) / load.done,
    p50: load.p50 - load.directP50,
    p99: load.p99 - load.directP99,
    ...(load.done < ENOUGH ? {} : { p999: load.p999 }),
    errors: closed.load.errors + load.errors,
    error: closed.load.error || load.error,
    overrun: load.waiting > (arrivals * QUEUE_MS) / 1000,
    mib: closed.mib,
    others: Math.max(closed.others, open.others),
  };
}

/** The middle of the values, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const half = sorted.length / 2;
  return (sorted[Math.ceil(half) - 1]! + sorted[Math.floor(half)]!) / 2;
}

/** CPU of a request of the first run to that of the second. */
export function cpuRatio(first: Measured, second: Measured): number {
  const [one, other] = [first, second].map(({ load, cpuMs }) => cpuMs / load.done);
  return one! / other!;
}

/** A core this busy is what limits a closed loop. Below, the rate is that of client and servers. */
const SATURATED = 0.85;

export const HEADING =
  "case           subject                  req/s/core  x bare     CPU us (range)       added p50 us  added p99 us  p99 at 64 us   MiB  others  note";

/** One line of the table: medians of the rounds that count. @param bare the cells of the gateway without features */
export function line(name: string, subject: string, all: readonly Cell[], bare: readonly Cell[] | undefined): string {
  const cells = valid(all);
  const begin = `${name.padEnd(14)} ${subject.padEnd(24)}`;
  const dropped = all.length - cells.length;
  if (cells.length === 0) return `${begin} invalid: others used more than ${MOST_OTHERS} cores in every round`;
  const of = (figure: (cell: Cell) => number): number => median(cells.map(figure));
  const rounded = (width: number, figure: (cell: Cell) => number): string => of(figure).toFixed(0).padStart(width);
  const base = bare && valid(bare);
  const times = base === undefined || base.length === 0 ? "" : (of(perCore) / median(base.map(perCore))).toFixed(2);
  const errors = cells.reduce((sum, cell) => sum + cell.errors, 0);
  const busy = of((cell) => cell.busy);
  const notes = [
    ...(dropped > 0 ? [`${dropped} of ${all.length} rounds invalid`] : []),
    ...(busy < SATURATED ? [`core ${(100 * busy).toFixed(0)} % busy`] : []),
    ...(cells.some(({ overrun }) => overrun) ? ["the open loop overran"] : []),
    ...(errors > 0 ? [`${errors} errors: ${cells.find(({ error }) => error !== "")?.error.slice(0, 80)}`] : []),
  ];
  const columns = [
    rounded(10, perCore),
    times.padStart(7),
    `${of(({ cpu }) => cpu).toFixed(0)} (${range(
      cells.map(({ cpu }) => cpu),
      (us) => us.toFixed(0),
    )})`.padStart(20),
    rounded(15, ({ p50 }) => p50),
    rounded(13, ({ p99 }) => p99),
    rounded(13, ({ fullP99 }) => fullP99),
    rounded(5, ({ mib }) => mib),
    of(({ others }) => others)
      .toFixed(2)
      .padStart(7),
  ];
  return `${begin} ${columns.join(" ")}  ${notes.join("; ")}`.trimEnd();
}

const perCore = (cell: Cell): number => cell.perCore;

/** The least and the greatest value. */
export function range(values: readonly number[], text: (value: number) => string): string {
  return `${text(Math.min(...values))} to ${text(Math.max(...values))}`;
}
