import { wrapped } from "./figure-text.ts";
import { anyFlowControl, type KindResult, type RunResult, spread } from "./result.ts";
import { type Cell, crossTable, flowTable } from "./study-table.ts";

/** The most groups in a table; `--json` and the report have all of them. */
const MAX_SHOWN = 10;

type Lines = readonly string[];

/** One figure of a group as a table. */
interface GroupFigure {
  readonly title: string;
  readonly figure: "time" | "count";
  of(result: KindResult): number;
}

const REJECTED: GroupFigure = { title: "rejected", figure: "count", of: ({ rejected }) => rejected };

/** The times by kind of request, and the refusals if there are any; no table without kinds. @param at such as `at 60 requests/s` */
export function kindBlocks(runs: readonly RunResult[], at: string, width: number): Lines[] {
  const groups = (run: RunResult): readonly KindResult[] => run.kinds;
  const refused = runs.some(({ kinds }) => kinds.some(({ rejected }) => rejected > 0));
  const time: GroupFigure = { title: "TTFT p90", figure: "time", of: ({ ttft }) => ttft.p90 };
  return [
    ...groupTables(runs, groups, [time], `by kind of request ${at}`, width),
    ...(refused ? groupTables(runs, groups, [REJECTED], ", by kind of request", width) : []),
  ];
}

const FLOW_FIGURES: readonly GroupFigure[] = [
  { title: "TTFT p50", figure: "time", of: ({ ttft }) => ttft.p50 },
  { title: "TTFT p90", figure: "time", of: ({ ttft }) => ttft.p90 },
  { title: "TTFT p99", figure: "time", of: ({ ttft }) => ttft.p99 },
  { title: "wait p90", figure: "time", of: ({ wait }) => wait.p90 },
  { title: "served tokens/s", figure: "count", of: ({ servedPerSecond }) => servedPerSecond },
];

/**
 * What flow control did: waits, fairness, waste and refusals by policy; then times by tenant and by priority, where there are
 * several. No table if no policy has flow control.
 */
export function flowBlocks(
  policies: readonly string[],
  runs: readonly RunResult[],
  at: string,
  width: number,
): Lines[] {
  if (!anyFlowControl(runs)) return [];
  const sorts = [
    ["tenant", (run: RunResult) => run.tenants],
    ["priority", (run: RunResult) => run.priorities],
  ] as const;
  return [
    [`Flow control ${at}`, ...flowTable(policies, runs, width)],
    ...sorts.flatMap(([sort, groups]) =>
      runs.some((run) => groups(run).length > 1)
        ? groupTables(runs, groups, FLOW_FIGURES, `by ${sort} ${at}`, width)
        : [],
    ),
  ];
}

function groupTables(
  runs: readonly RunResult[],
  groups: (run: RunResult) => readonly KindResult[],
  figures: readonly GroupFigure[],
  suffix: string,
  width: number,
): Lines[] {
  const requests = new Map<string, number>();
  for (const run of runs)
    for (const { kind, requests: more } of groups(run)) requests.set(kind, (requests.get(kind) ?? 0) + more);
  if (requests.size === 0) return [];
  const busiest = [...requests].sort(([, a], [, b]) => b - a).slice(0, MAX_SHOWN);
  const shown = new Set(busiest.map(([kind]) => kind));
  const cells = runs.flatMap((run) =>
    groups(run)
      .filter(({ kind }) => shown.has(kind))
      .map((result) => ({ row: run.policy, column: result.kind, result })),
  );
  const of = requests.size > shown.size ? `, the ${shown.size} busiest of ${requests.size}` : "";
  const ordered = busiest.flatMap(([kind]) => cells.filter(({ column }) => column === kind));
  return figures.flatMap(({ title, figure, of: value }) => {
    const valued = ordered.map((cell) => ({ row: cell.row, column: cell.column, value: value(cell.result) }));
    if (valued.every((cell) => Number.isNaN(cell.value))) return [];
    const head = wrapped(`${title}${suffix.startsWith(",") ? "" : " "}${suffix}${of}`, width);
    return [[...head, ...crossTable("policy", medians(valued), figure, width)]];
  });
}

/** One cell for the seeds of each row and column. */
export function medians(
  values: readonly { readonly row: string; readonly column: string; readonly value: number }[],
): Cell[] {
  const groups = new Map<string, { row: string; column: string; values: number[] }>();
  for (const { row, column, value } of values) {
    const key = JSON.stringify([row, column]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { row, column, values: [value] });
    else group.values.push(value);
  }
  return [...groups.values()].map(({ row, column, values: all }) => ({ row, column, spread: spread(all) }));
}
