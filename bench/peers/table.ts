import { type Cell, MOST_OTHERS, median, range, valid } from "./figures.ts";

/** The cells of all subjects: by name of the subject, then by name of the case. */
export type Results = Readonly<Record<string, Readonly<Record<string, readonly Cell[]>>>>;

/** What stands for a figure that was not measured, and for those of a subject that the machine lacks. */
const NONE = "-";
const MISSING = "not installed";

interface Column {
  readonly head: string;
  readonly figure: (cell: Cell) => number | undefined;
  readonly text: (value: number) => string;
}

const ms = (us: number): string => (us / 1000).toFixed(us < 10_000 ? 1 : 0);
const whole = (value: number): string => Math.round(value).toLocaleString("en");

const PER_CORE: Column = { head: "Requests/s of one core", figure: (cell) => cell.perCore, text: whole };
const CPU: Column = { head: "CPU us per request at half load", figure: (cell) => cell.cpu, text: whole };
const P50: Column = { head: "Added p50, ms", figure: (cell) => cell.p50, text: ms };
const P99: Column = { head: "Added p99, ms", figure: (cell) => cell.p99, text: ms };
const FULL_P99: Column = { head: "p99 of 64 busy connections, ms", figure: (cell) => cell.fullP99, text: ms };
const MIB: Column = { head: "MiB", figure: (cell) => cell.mib, text: whole };
const SHORT = [CPU, P50, P99, FULL_P99, MIB];
const LONG: readonly Column[] = [
  PER_CORE,
  CPU,
  P50,
  P99,
  { head: "p99.9 at half load, ms", figure: (cell) => cell.p999, text: ms },
  FULL_P99,
  { head: "p99.9 of them", figure: (cell) => cell.fullP999, text: ms },
  MIB,
  { head: "Others, cores", figure: (cell) => cell.others, text: (value) => value.toFixed(2) },
];

const valuesOf = ({ figure }: Column, cells: readonly Cell[]): readonly number[] =>
  cells.map(figure).filter((value) => value !== undefined);

/** The median, and the range where there are several rounds. */
function withRange(column: Column, cells: readonly Cell[]): string {
  const values = valuesOf(column, cells);
  if (values.length === 0) return NONE;
  return values.length === 1
    ? column.text(values[0]!)
    : `${column.text(median(values))} (${range(values, column.text)})`;
}

function middle(column: Column, cells: readonly Cell[]): string {
  const values = valuesOf(column, cells);
  return values.length === 0 ? NONE : column.text(median(values));
}

/**
 * The short table: one row for each subject, one figure for each case in a cell. Rounds that do not count are left out.
 * @param beside the subject whose CPU time the second column divides by
 * @param missing subjects that the machine lacks
 */
export function peersTable(
  results: Results,
  cases: readonly string[],
  beside: string,
  missing: readonly string[] = [],
): string {
  const heads = [
    "Proxy",
    PER_CORE.head,
    `CPU per request at full rate, relative to ${beside}`,
    ...SHORT.map(({ head }) => head),
  ];
  const rows = Object.keys(results).map((subject) => {
    const cells = (name: string): readonly Cell[] => valid(results[subject]?.[name] ?? []);
    const column = (one: Column): string => cases.map((name) => middle(one, cells(name))).join(" / ");
    const ratios = cases.map((name) => ratio(cells(name), valid(results[beside]?.[name] ?? []))).join(" / ");
    return [subject, column(PER_CORE), ratios, ...SHORT.map(column)];
  });
  const lacking = missing.map((subject) => [subject, MISSING, ...heads.slice(2).map(() => NONE)]);
  return markdown([heads, ...rows, ...lacking]);
}

/** The long table: one row for each case of each subject, medians with their ranges. Parameters as of `peersTable`. */
export function casesTable(
  results: Results,
  cases: readonly string[],
  beside: string,
  missing: readonly string[] = [],
): string {
  const heads = ["Case", "Proxy", "Rounds", `CPU, x ${beside}`, ...LONG.map(({ head }) => head)];
  const rows = cases.flatMap((name) => [
    ...Object.keys(results).map((subject) => {
      const cells = valid(results[subject]?.[name] ?? []);
      const times = ratio(cells, valid(results[beside]?.[name] ?? []));
      return [name, subject, String(cells.length), times, ...LONG.map((column) => withRange(column, cells))];
    }),
    ...missing.map((subject) => [name, subject, MISSING, ...heads.slice(3).map(() => NONE)]),
  ]);
  return markdown([heads, ...rows]);
}

/** The line below a table: how many rounds count, what others used meanwhile, the command and the date. */
export function caption(results: Results, command: string, date: Date): string {
  const all = Object.values(results).flatMap((cases) => Object.values(cases).map(valid));
  const counts = all.map((cells) => cells.length);
  const others = Math.max(0, ...all.flat().map((cell) => cell.others));
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  const rounds = least === most ? String(most) : `${least} to ${most}`;
  return `Medians of ${rounds} rounds (\`${command}\`, ${date.toISOString().slice(0, 10)}). Other programs used at most ${others.toFixed(2)} cores meanwhile; with more than ${MOST_OTHERS}, a round does not count.`;
}

function markdown([heads, ...rows]: readonly (readonly string[])[]): string {
  return [heads!, heads!.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |\n`).join("");
}

function ratio(ours: readonly Cell[], theirs: readonly Cell[]): string {
  if (ours.length === 0 || theirs.length === 0) return NONE;
  const perCore = (cells: readonly Cell[]): number => median(cells.map((cell) => cell.perCore));
  return (perCore(theirs) / perCore(ours)).toFixed(2);
}

/** The text between the two marks, replaced. @throws Error where the document lacks them */
export function between(document: string, mark: string, text: string): string {
  const [begin, end] = [`<!-- ${mark}:begin -->\n`, `<!-- ${mark}:end -->`];
  const [from, to] = [document.indexOf(begin), document.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`the document has no ${begin.trim()} before ${end}`);
  return document.slice(0, from + begin.length) + text + document.slice(to);
}
