import { type Cell, median, valid } from "./figures.ts";

/** The cells of all subjects: by name of the subject, then by name of the case. */
export type Results = Readonly<Record<string, Readonly<Record<string, readonly Cell[]>>>>;

/** What stands for a figure that was not measured. */
const NONE = "-";

interface Column {
  readonly head: string;
  readonly figure: (cell: Cell) => number;
  readonly text: (value: number) => string;
}

const ms = (us: number): string => (us / 1000).toFixed(us < 10_000 ? 1 : 0);
const whole = (value: number): string => Math.round(value).toLocaleString("en");

const COLUMNS: readonly Column[] = [
  { head: "Requests/s of one core", figure: (cell) => cell.perCore, text: whole },
  { head: "CPU us per request at half load", figure: (cell) => cell.cpu, text: whole },
  { head: "Added p50, ms", figure: (cell) => cell.p50, text: ms },
  { head: "Added p99, ms", figure: (cell) => cell.p99, text: ms },
  { head: "p99 of 64 busy connections, ms", figure: (cell) => cell.fullP99, text: ms },
  { head: "MiB", figure: (cell) => cell.mib, text: whole },
];

/**
 * The table of the documentation: one row for each subject, one figure for each case in a cell. Rounds that do not count are left out.
 * @param beside the subject whose CPU time the second column divides by
 */
export function peersTable(results: Results, cases: readonly string[], beside: string): string {
  const [first, ...others] = COLUMNS;
  const heads = [
    "Proxy",
    first!.head,
    `CPU per request at full rate, relative to ${beside}`,
    ...others.map(({ head }) => head),
  ];
  const rows = Object.keys(results).map((subject) => {
    const cells = (name: string): readonly Cell[] => valid(results[subject]?.[name] ?? []);
    const column = ({ figure, text }: Column): string =>
      cases.map((name) => (cells(name).length === 0 ? NONE : text(median(cells(name).map(figure))))).join(" / ");
    const ratios = cases.map((name) => ratio(cells(name), valid(results[beside]?.[name] ?? []))).join(" / ");
    return [subject, column(first!), ratios, ...others.map(column)];
  });
  const lines = [heads, heads.map(() => "---"), ...rows];
  return lines.map((row) => `| ${row.join(" | ")} |\n`).join("");
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
