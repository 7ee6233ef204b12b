import { counted, grouped, listed } from "../../base/document/words.ts";
import { figureText, NO_FIGURE, wrapped } from "./figure-text.ts";
import { timeText } from "./progress.ts";
import { behindText, keepsUp, type RunResult, type StudiedWorkload, type Study, spread } from "./result.ts";
import type { PlanSize } from "./simulate-settings.ts";
import type { StudyPlan } from "./study.ts";
import { type Cell, crossTable, nameText, policyTable } from "./study-table.ts";

/** Characters of a line: as many as a terminal has, within these. */
const NARROWEST = 60;
const WIDEST = 120;
/** Kinds that a table shows; `--json` and the report have all of them. */
const MAX_KINDS = 10;
/** Simulated requests per second of one core, as `sluice simulate` tells at its end; for the estimate alone. */
const USUAL_SPEED = 4000;

interface StudyTextOptions {
  /** Characters of the terminal; undefined = it is none, and lines may be as wide as they get. */
  readonly width?: number | undefined;
  /** Runs that were planned. */
  readonly planned: number;
}

/** What is about to be done, in one line. */
export function planText({ workloads, policies, seeds }: StudyPlan, size: PlanSize): string {
  const of = [
    ...(workloads.length === 1 ? [workloads[0]!.definition.name] : [`${workloads.length} workloads`]),
    ...[counted(policies.length, "policy", "policies"), counted(seeds.length, "seed")],
  ];
  const time = timeText((size.requests / USUAL_SPEED) * 1000);
  return `${of.join(", ")}: ${counted(size.runs, "run")}, about ${grouped(size.requests)} requests, about ${time}; Ctrl-C shows what is finished`;
}

/**
 * A study for a terminal: per workload a table of policies at the top rate, the times to first token over the rates and by
 * kind; then how fast it was simulated. No colours.
 */
export function studyText(study: Study, { width = WIDEST, planned }: StudyTextOptions): string {
  const room = Math.min(WIDEST, Math.max(NARROWEST, width));
  const blocks = study.workloads.flatMap((workload) => workloadBlocks(study, workload, room));
  if (study.runs.length === 0) blocks.push(["Nothing was finished."]);
  else blocks.push(legend(study, room));
  if (study.speed !== undefined) blocks.push(wrapped(speedText(study.speed), room));
  if (study.runs.length < planned)
    blocks.push(wrapped(`PARTIAL: ${study.runs.length} of ${planned} runs were finished before it was ended.`, room));
  return `${blocks.map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

function workloadBlocks(study: Study, workload: StudiedWorkload, width: number): (readonly string[])[] {
  const runs = study.runs.filter((run) => run.workload === workload.name);
  if (runs.length === 0) return [];
  const policies = study.policies.map(({ name }) => name);
  const rate = topRate(runs, policies);
  const top = runs.filter((run) => run.rate === rate);
  const seeds = new Set(top.map(({ seed }) => seed)).size;
  const unit = workload.rateUnit;
  const what = seeds > 1 ? `: medians of ${seeds} seeds, below them the least and the most` : ", one seed";
  const blocks: (readonly string[])[] = [
    [
      ...wrapped(`${workload.name}: ${workload.about}`, width),
      ...wrapped(settingText(study, workload), width),
      ...wrapped(realisedText(runs), width),
    ],
    [...wrapped(`At ${rate} ${unit}${what}`, width), ...policyTable(policies, top, width)],
  ];
  const verdict = verdictText(policies, top);
  const rates = [...new Set(runs.map((run) => run.rate))];
  if (verdict !== undefined) {
    const late = policies.filter((policy) => !keepsUp(medianOf(top, policy, ttftP90), workload.durationMs));
    const caution = behindText(late.map(nameText), `${rate} ${unit}`, Math.min(...rates) < rate);
    blocks.push([...wrapped(verdict, width), ...(caution === undefined ? [] : wrapped(caution, width))]);
  }
  if (rates.length > 1) {
    const cells = runs.map((run) => ({ row: run.policy, column: `${run.rate}`, value: run.ttft.p90 }));
    blocks.push([
      `TTFT p90 over ${unit}${seeds > 1 ? ", medians" : ""}`,
      ...crossTable("policy", medians(cells), "time", width),
    ]);
  }
  return [...blocks, ...kindBlocks(top, rate, unit, width)];
}

/** The highest rate that all policies have been through; the highest of all as long as there is none. */
function topRate(runs: readonly RunResult[], policies: readonly string[]): number {
  const rates = [...new Set(runs.map(({ rate }) => rate))].sort((a, b) => b - a);
  const whole = (rate: number): boolean =>
    policies.every((policy) => runs.some((run) => run.rate === rate && run.policy === policy));
  return rates.find(whole) ?? rates[0]!;
}

function settingText({ seeds }: Study, workload: StudiedWorkload): string {
  const { rates, rateUnit, servers, preset, durationMs, warmUp, scrapeIntervalMs, metricsLagMs } = workload;
  const [first, last] = [seeds[0]!, seeds.at(-1)!];
  return [
    `${counted(servers, "server")} of ${preset}`,
    `${durationMs / 1000} s of arrivals at ${rates.join(", ")} ${rateUnit}`,
    ...(warmUp === undefined
      ? []
      : [
          `before them ${short(warmUp.durationMs / 1000)} s at ${short(warmUp.rate)} to warm up${warmUp.restMs ? `, and ${short(warmUp.restMs / 1000)} s for its answers` : ""}`,
        ]),
    `metrics read every ${duration(scrapeIntervalMs)}${metricsLagMs === 0 ? "" : `, ${duration(metricsLagMs)} old`}`,
    seeds.length === 1 ? `seed ${first}` : `seeds ${first} to ${last}`,
  ].join("; ");
}

/** What was drawn: lengths are means of a run each. */
function realisedText(runs: readonly RunResult[]): string {
  const requests = runs.map((run) => run.requests);
  const prompts = runs.map((run) => run.promptTokens);
  const answers = runs.map((run) => run.outputTokens);
  return `realised: ${between(requests)} requests a run, prompts of ${between(prompts)} tokens and answers of ${between(answers)} on average`;
}

function between(values: readonly number[]): string {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return NO_FIGURE;
  const { min, max } = spread(finite);
  const [least, most] = [grouped(min), grouped(max)];
  return least === most ? least : `${least} to ${most}`;
}

const ttftP90 = (run: RunResult): number => run.ttft.p90;
const tokensPerSecond = (run: RunResult): number => run.outputTokensPerSecond;

/** One figure a seed. */
function valuesOf(runs: readonly RunResult[], policy: string, of: (run: RunResult) => number): number[] {
  return runs.filter((run) => run.policy === policy).map(of);
}

/** NaN where it was not run, or has no such figure. */
function medianOf(runs: readonly RunResult[], policy: string, of: (run: RunResult) => number): number {
  const values = valuesOf(runs, policy, of);
  return values.length === 0 ? Number.NaN : spread(values).median;
}

/** Who was best, and who is not to be told from it; undefined where there is nothing to compare. */
function verdictText(policies: readonly string[], runs: readonly RunResult[]): string | undefined {
  const quickest = bestText("Shortest TTFT p90", "time", ttftP90, policies, runs, (a, b) => a < b);
  const most = bestText("Most output tokens/s", "count", tokensPerSecond, policies, runs, (a, b) => a > b);
  if (policies.length < 2 || quickest === undefined || most === undefined) return undefined;
  const several = runs.some(({ seed }) => seed !== runs[0]!.seed);
  return `${quickest} ${most}${several ? "" : " One seed tells no small differences: --seeds 5 does."}`;
}

function bestText(
  title: string,
  figure: "time" | "count",
  of: (run: RunResult) => number,
  policies: readonly string[],
  runs: readonly RunResult[],
  better: (a: number, b: number) => boolean,
): string | undefined {
  const first = policies[0]!;
  const able = policies.filter((policy) => Number.isFinite(medianOf(runs, policy, of)));
  const best = able.reduce<string | undefined>(
    (found, policy) =>
      found === undefined || better(medianOf(runs, policy, of), medianOf(runs, found, of)) ? policy : found,
    undefined,
  );
  if (best === undefined) return undefined;
  const alike = able.filter(
    (policy) => policy !== best && overlap(valuesOf(runs, policy, of), valuesOf(runs, best, of)),
  );
  const shown = (policy: string): string => figureText(medianOf(runs, policy, of), figure);
  const beside = best === first || alike.includes(first) ? "" : `, against ${shown(first)} of ${nameText(first)}`;
  const same = alike.length === 0 ? "" : `, not told apart from ${listed(alike.map(nameText))}`;
  return `${title}: ${nameText(best)} with ${shown(best)}${same}${beside}.`;
}

/** Figures of so near a size that chance may have put them in this order: ranges that meet, of one seed 5 %. */
function overlap(some: readonly number[], others: readonly number[]): boolean {
  const near = some.length > 1 && others.length > 1 ? 1 : 1.05;
  const [a, b] = [spread(some), spread(others)];
  return a.min <= b.max * near && b.min <= a.max * near;
}

function kindBlocks(runs: readonly RunResult[], rate: number, unit: string, width: number): (readonly string[])[] {
  const requests = new Map<string, number>();
  for (const { kinds } of runs)
    for (const { kind, requests: more } of kinds) requests.set(kind, (requests.get(kind) ?? 0) + more);
  if (requests.size === 0) return [];
  const busiest = [...requests].sort(([, a], [, b]) => b - a).slice(0, MAX_KINDS);
  const shown = new Set(busiest.map(([kind]) => kind));
  const cells = runs.flatMap((run) =>
    run.kinds.filter(({ kind }) => shown.has(kind)).map((result) => ({ row: run.policy, column: result.kind, result })),
  );
  const of = requests.size > shown.size ? `, the ${shown.size} busiest of ${requests.size}` : "";
  const table = (
    title: string,
    value: (cell: (typeof cells)[number]) => number,
    figure: "time" | "count",
  ): string[] => {
    const ordered = busiest.flatMap(([kind]) => cells.filter(({ column }) => column === kind));
    const valued = ordered.map((cell) => ({ row: cell.row, column: cell.column, value: value(cell) }));
    return [...wrapped(title, width), ...crossTable("policy", medians(valued), figure, width)];
  };
  const rejected = cells.some(({ result }) => result.rejected > 0);
  return [
    table(`TTFT p90 by kind of request at ${rate} ${unit}${of}`, ({ result }) => result.ttft.p90, "time"),
    ...(rejected ? [table(`rejected, by kind of request${of}`, ({ result }) => result.rejected, "count")] : []),
  ];
}

/** One cell for the seeds of each. */
function medians(values: readonly { readonly row: string; readonly column: string; readonly value: number }[]): Cell[] {
  const groups = new Map<string, { row: string; column: string; values: number[] }>();
  for (const { row, column, value } of values) {
    const key = JSON.stringify([row, column]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { row, column, values: [value] });
    else group.values.push(value);
  }
  return [...groups.values()].map(({ row, column, values: all }) => ({ row, column, spread: spread(all) }));
}

/** What the words of the tables mean. */
function legend({ policies }: Study, width: number): string[] {
  const first = nameText(policies[0]!.name);
  const words: readonly (readonly [string, string])[] = [
    ["TTFT", "time from a request's arrival to its first token; p90: nine in ten are quicker"],
    ...(policies.length > 1
      ? ([
          ["faster", `how many times shorter the TTFT p90 is than ${first}'s`],
          ["tokens/s", `output tokens of all servers; more: how many times those of ${first}`],
        ] as const)
      : ([["tokens/s", "output tokens of all servers"]] as const)),
    ["hits", "share of the prompts' tokens that a cache held"],
    ["max/mean", "load of the busiest server by that of the average one; 1 = even"],
    ["rejected", "requests that were refused; --json and --html tell more"],
  ];
  const left = Math.max(...words.map(([word]) => word.length)) + 2;
  return words.flatMap(([word, meaning]) =>
    wrapped(meaning, width - left).map((line, at) => (at === 0 ? word : "").padEnd(left) + line),
  );
}

function speedText({ requestsPerSecond, bareRequestsPerSecond }: NonNullable<Study["speed"]>): string {
  const share = requestsPerSecond / bareRequestsPerSecond;
  return `Simulated ${grouped(requestsPerSecond)} requests/s; the same arrivals and engines without a scheduler ${grouped(bareRequestsPerSecond)}/s (${share.toFixed(2)}).`;
}

/** Four digits at most: `50`, `3.75`, `0.7813`. */
function short(value: number): string {
  return String(Number(value.toPrecision(4)));
}

/** `50 ms`, `2 s`: as it was set, without rounding. @param ms >= 0 */
function duration(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${ms / 1000} s`;
}
