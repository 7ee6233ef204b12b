import { columns } from "../../base/process/screen.ts";
import { type FigureKind, figureText, NO_FIGURE, type SpreadText, spreadText } from "./figure-text.ts";
import { backlogPerSecond, type RunResult, type Spread, spread } from "./result.ts";

/** The longest name of a policy or kind that a table shows in full. */
const MAX_NAME = 28;
/** Blanks between two columns. */
const GAP = 2;

/** The runs of one policy at one rate, one per seed, and those of the first policy for comparison. */
interface Row {
  readonly runs: readonly RunResult[];
  readonly first: readonly RunResult[];
}

interface Column {
  readonly head: string;
  readonly figure: FigureKind;
  /** One figure per seed. */
  values(row: Row): readonly number[];
  /** Shown only if at least one run has a value above zero. */
  readonly unlessZero?: true;
}

function column(head: string, figure: FigureKind, of: (run: RunResult) => number): Column {
  return { head, figure, values: ({ runs }) => runs.map(of) };
}

/** The ratio of a figure to that of the first policy with the same seed, so with the same arrivals. */
function ratio(head: string, of: (run: RunResult, first: RunResult) => number): Column {
  const values = ({ runs, first }: Row): readonly number[] =>
    runs.flatMap((run) => {
      const base = first.find(({ seed }) => seed === run.seed);
      return base === undefined ? [] : [of(run, base)];
    });
  return { head, figure: "ratio", values };
}

const LATENCIES: readonly Column[] = [
  column("TTFT p50", "time", ({ ttft }) => ttft.p50),
  column("TTFT p90", "time", ({ ttft }) => ttft.p90),
  ratio("faster", (run, first) => first.ttft.p90 / run.ttft.p90),
  column("TTFT p99", "time", ({ ttft }) => ttft.p99),
];
const REST: readonly Column[] = [
  column("tokens/s", "count", ({ outputTokensPerSecond }) => outputTokensPerSecond),
  ratio("more", (run, first) => run.outputTokensPerSecond / first.outputTokensPerSecond),
  column("hits", "share", ({ hitRate }) => hitRate),
  column("max/mean", "load", ({ maxToMeanLoad }) => maxToMeanLoad),
  column("rejected", "count", ({ rejected }) => rejected),
  { ...column("adapter loads", "count", ({ adapterLoads }) => adapterLoads), unlessZero: true },
];

/**
 * Policies by figures: medians over seeds, and below each its range if there are several seeds. A table that is too wide has
 * several parts, latencies first.
 * @param policies names in order; ratios are to the first
 * @param runs of one workload at one rate
 * @param width characters, >= 60
 */
export function policyTable(policies: readonly string[], runs: readonly RunResult[], width: number): readonly string[] {
  const rows = rowsOf(policies, runs);
  const isShown = ({ figure, unlessZero, values }: Column): boolean => {
    // With one policy there is nothing to compare.
    if (figure === "ratio" && policies.length === 1) return false;
    return unlessZero === undefined || rows.some((row) => values(row).some((value) => value > 0));
  };
  const cells = (shown: readonly Column[]): string[][] => tableRows(policies, rows, shown.filter(isShown));
  const whole = cells([...LATENCIES, ...REST]);
  if (blocksOf(whole, width).length === 1) return joined(blocksOf(whole, width));
  return joined([...blocksOf(cells(LATENCIES), width), ...blocksOf(cells(REST), width)]);
}

/** The most reasons of refusals with a column of their own; `--json` has all of them. */
const MAX_REASONS = 6;

const FLOW: readonly Column[] = [
  column("wait p50", "time", ({ wait }) => wait.p50),
  column("wait p90", "time", ({ wait }) => wait.p90),
  column("wait p99", "time", ({ wait }) => wait.p99),
  column("even", "load", ({ jain }) => jain),
  column("wasted", "part", ({ wasted }) => wasted),
  { ...column("backlog tokens/s", "count", backlogPerSecond), unlessZero: true },
];

/** Policies by the figures of flow control, and a column for each reason of refusals. Parameters as in `policyTable`. */
export function flowTable(policies: readonly string[], runs: readonly RunResult[], width: number): readonly string[] {
  const rows = rowsOf(policies, runs);
  const reasons = [...new Set(runs.flatMap(({ refusals }) => Object.keys(refusals)))].sort().slice(0, MAX_REASONS);
  const refused = reasons.map((reason) =>
    column(reason.replaceAll("_", " "), "count", (run) => run.refusals[reason] ?? 0),
  );
  const shown = FLOW.filter(
    ({ unlessZero, values }) => unlessZero === undefined || rows.some((row) => values(row).some((value) => value > 0)),
  );
  return joined(blocksOf(tableRows(policies, rows, [...shown, ...refused]), width));
}

function rowsOf(policies: readonly string[], runs: readonly RunResult[]): readonly Row[] {
  const of = (policy: string): readonly RunResult[] => runs.filter((run) => run.policy === policy);
  const first = of(policies[0]!);
  return policies.map((policy) => ({ runs: of(policy), first }));
}

function tableRows(policies: readonly string[], rows: readonly Row[], shown: readonly Column[]): string[][] {
  return [
    ["policy", ...shown.map(({ head }) => head)],
    ...rows.flatMap((row, at) => {
      const cells = shown.map(({ values, figure }) => cellOf(values(row), figure));
      const medians = [nameText(policies[at]!), ...cells.map(({ median }) => median)];
      return row.runs.length < 2 ? [medians] : [medians, ["", ...cells.map(({ range }) => range)]];
    }),
  ];
}

function cellOf(values: readonly number[], figure: FigureKind): SpreadText {
  return values.length === 0 ? { median: NO_FIGURE, range: "" } : spreadText(spread(values), figure);
}

/** One figure in a table of names by names. */
export interface Cell {
  readonly row: string;
  readonly column: string;
  /** The spread over seeds. */
  readonly spread: Spread;
}

/**
 * Medians of one figure, rows by columns, in as many parts as the width requires.
 * @param head above the rows
 */
export function crossTable(head: string, cells: readonly Cell[], figure: FigureKind, width: number): readonly string[] {
  const rows = [...new Set(cells.map(({ row }) => row))];
  const heads = [...new Set(cells.map((cell) => cell.column))];
  const text = (row: string, of: string): string => {
    const found = cells.find((cell) => cell.row === row && cell.column === of)?.spread;
    return found === undefined ? NO_FIGURE : figureText(found.median, figure);
  };
  const table = [
    [head, ...heads.map(nameText)],
    ...rows.map((row) => [nameText(row), ...heads.map((one) => text(row, one))]),
  ];
  return joined(blocksOf(table, width));
}

/** A table in parts of legal width. Each part has the first column and at least one more. */
function blocksOf(rows: readonly (readonly string[])[], width: number): (readonly string[])[] {
  const widthOf = (at: number): number => Math.max(...rows.map((row) => row[at]!.length));
  const blocks: number[][] = [];
  let room = 0;
  for (let at = 1; at < rows[0]!.length; at++) {
    const wide = GAP + widthOf(at);
    if (wide > room) {
      blocks.push([]);
      room = width - widthOf(0);
    }
    blocks.at(-1)!.push(at);
    room -= wide;
  }
  return blocks.map((block) => {
    const part = rows.map((row) => [row[0]!, ...block.map((at) => row[at]!)]);
    return columns(part.filter((row) => row.some((cell) => cell !== "")));
  });
}

function joined(blocks: readonly (readonly string[])[]): readonly string[] {
  return blocks.flatMap((lines, at) => (at === 0 ? lines : ["", ...lines]));
}

/** A name without control characters, which a terminal would execute, and not longer than `MAX_NAME`. */
export function nameText(name: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it replaces
  const plain = name.replace(/[\u0000-\u001f\u007f-\u009f]/g, "?");
  // The end of a path says more than its start.
  return plain.length <= MAX_NAME ? plain : `...${plain.slice(3 - MAX_NAME)}`;
}
