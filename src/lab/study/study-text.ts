import { counted, grouped, listed } from "../../base/document/words.ts";
import { figureText, NO_FIGURE, wrapped } from "./figure-text.ts";
import { flowBlocks, kindBlocks, medians } from "./group-tables.ts";
import { pickersText } from "./picker-flags.ts";
import { timeText } from "./progress.ts";
import {
  anyFlowControl,
  behindText,
  EQUAL_WITHIN,
  keepsUp,
  type RunResult,
  type StudiedWorkload,
  type Study,
  spread,
} from "./result.ts";
import type { PlanSize } from "./simulate-settings.ts";
import type { StudyPlan } from "./study.ts";
import { crossTable, nameText, policyTable } from "./study-table.ts";

/** Limits of a line's width in characters; within them, the width of the terminal counts. */
const NARROWEST = 60;
const WIDEST = 120;
/** Simulated requests per second of one core, as `sluice simulate` prints them at its end; only for the estimate. */
const USUAL_SPEED = 4000;

interface StudyTextOptions {
  /** Characters of the terminal; undefined = the output is not a terminal, and lines have the greatest width. */
  readonly width?: number | undefined;
  /** Number of planned runs. */
  readonly planned: number;
}

/** The plan in one line. */
export function planText({ workloads, policies, seeds }: StudyPlan, size: PlanSize): string {
  const of = [
    ...(workloads.length === 1 ? [workloads[0]!.definition.name] : [`${workloads.length} workloads`]),
    ...[counted(policies.length, "policy", "policies"), counted(seeds.length, "seed")],
  ];
  const time = timeText((size.requests / USUAL_SPEED) * 1000);
  return `${of.join(", ")}: ${counted(size.runs, "run")}, about ${grouped(size.requests)} requests, about ${time}; Ctrl-C shows the finished runs`;
}

/**
 * A study for a terminal. Each workload has a table of policies at the top rate, and the times to first token over the rates
 * and by kind. The speed of the simulation follows. No colours.
 */
export function studyText(study: Study, { width = WIDEST, planned }: StudyTextOptions): string {
  const room = Math.min(WIDEST, Math.max(NARROWEST, width));
  const blocks = study.workloads.flatMap((workload) => workloadBlocks(study, workload, room));
  if (study.runs.length === 0) blocks.push(["No run was finished."]);
  else blocks.push(legend(study, room));
  if (study.speed !== undefined) blocks.push(wrapped(speedText(study.speed), room));
  if (study.runs.length < planned)
    blocks.push(wrapped(`PARTIAL: ${study.runs.length} of ${planned} runs were complete when the study ended.`, room));
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
  const what = seeds > 1 ? `: medians of ${seeds} seeds, below them the minimum and the maximum` : ", one seed";
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
  const at = `at ${rate} ${unit}`;
  return [...blocks, ...kindBlocks(top, at, width), ...flowBlocks(policies, top, at, width)];
}

/** The highest rate with runs of all policies, else the highest rate. */
function topRate(runs: readonly RunResult[], policies: readonly string[]): number {
  const rates = [...new Set(runs.map(({ rate }) => rate))].sort((a, b) => b - a);
  const whole = (rate: number): boolean =>
    policies.every((policy) => runs.some((run) => run.rate === rate && run.policy === policy));
  return rates.find(whole) ?? rates[0]!;
}

function settingText({ seeds }: Study, workload: StudiedWorkload): string {
  const { rates, rateUnit, servers, preset, durationMs, warmUp, scrapeIntervalMs, metricsLagMs, pickers } = workload;
  const [first, last] = [seeds[0]!, seeds.at(-1)!];
  return [
    `${counted(servers, "server")} of ${preset}`,
    `${durationMs / 1000} s of arrivals at ${rates.join(", ")} ${rateUnit}`,
    ...(warmUp === undefined
      ? []
      : [
          `warm-up before: ${short(warmUp.durationMs / 1000)} s at ${short(warmUp.rate)} ${rateUnit}${warmUp.restMs ? `, then ${short(warmUp.restMs / 1000)} s until its answers end` : ""}`,
        ]),
    `metrics read every ${duration(scrapeIntervalMs)}${metricsLagMs === 0 ? "" : `, ${duration(metricsLagMs)} old`}`,
    ...(pickers === undefined ? [] : [pickersText(pickers)]),
    seeds.length === 1 ? `seed ${first}` : `seeds ${first} to ${last}`,
  ].join("; ");
}

/** The realised lengths; each value is the mean of a run. */
function realisedText(runs: readonly RunResult[]): string {
  const requests = runs.map((run) => run.requests);
  const prompts = runs.map((run) => run.promptTokens);
  const answers = runs.map((run) => run.outputTokens);
  return `actual: ${between(requests)} requests per run, prompts of ${between(prompts)} tokens and answers of ${between(answers)} on average`;
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

/** One value per seed. */
function valuesOf(runs: readonly RunResult[], policy: string, of: (run: RunResult) => number): number[] {
  return runs.filter((run) => run.policy === policy).map(of);
}

/** NaN without runs, or without such a figure. */
function medianOf(runs: readonly RunResult[], policy: string, of: (run: RunResult) => number): number {
  const values = valuesOf(runs, policy, of);
  return values.length === 0 ? Number.NaN : spread(values).median;
}

/** The best policy, and those too close to tell apart; undefined when there is nothing to compare. */
function verdictText(policies: readonly string[], runs: readonly RunResult[]): string | undefined {
  const quickest = bestText("Shortest TTFT p90", "time", ttftP90, policies, runs, (a, b) => a < b);
  const most = bestText("Most output tokens/s", "count", tokensPerSecond, policies, runs, (a, b) => a > b);
  if (policies.length < 2 || quickest === undefined || most === undefined) return undefined;
  const several = runs.some(({ seed }) => seed !== runs[0]!.seed);
  return `${quickest} ${most}${several ? "" : " One seed cannot show small differences; use --seeds 5."}`;
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
  const same = alike.length === 0 ? "" : `, not distinct from ${listed(alike.map(nameText))}`;
  return `${title}: ${nameText(best)} with ${shown(best)}${same}${beside}.`;
}

/**
 * Whether chance may have decided the order of two figures: their ranges meet, or with one seed they differ by less than
 * `EQUAL_WITHIN`.
 */
function overlap(some: readonly number[], others: readonly number[]): boolean {
  const near = some.length > 1 && others.length > 1 ? 1 : EQUAL_WITHIN;
  const [a, b] = [spread(some), spread(others)];
  return a.min <= b.max * near && b.min <= a.max * near;
}

/** The terms of the tables of flow control. */
const FLOW_WORDS: readonly (readonly [string, string])[] = [
  ["wait", "time in flow control, of requests that reached a server"],
  ["even", "Jain's index over the tokens that the tenants got: 1 = all got the same"],
  ["wasted", "share of the computed tokens whose requests were evicted"],
  ["backlog", "tokens/s of prompts and answers of requests with a priority below 0"],
];

/** The terms of the tables. */
function legend({ policies, runs }: Study, width: number): string[] {
  const first = nameText(policies[0]!.name);
  const words: readonly (readonly [string, string])[] = [
    ["TTFT", "time from a request's arrival to its first token; p90: 90 % are shorter"],
    ...(policies.length > 1
      ? ([
          ["faster", `how many times shorter the TTFT p90 is than ${first}'s`],
          ["tokens/s", `output tokens of all servers; more: how many times those of ${first}`],
        ] as const)
      : ([["tokens/s", "output tokens of all servers"]] as const)),
    ["hits", "share of the prompts' tokens that a cache held"],
    ["max/mean", "load of the busiest server, divided by the average; 1 = even"],
    ["rejected", "requests that were refused; --json and --html have the reasons"],
    ...(anyFlowControl(runs) ? FLOW_WORDS : []),
  ];
  const left = Math.max(...words.map(([word]) => word.length)) + 2;
  return words.flatMap(([word, meaning]) =>
    wrapped(meaning, width - left).map((line, at) => (at === 0 ? word : "").padEnd(left) + line),
  );
}

function speedText({ requestsPerSecond, bareRequestsPerSecond }: NonNullable<Study["speed"]>): string {
  const share = requestsPerSecond / bareRequestsPerSecond;
  return `Speed of the simulation: ${grouped(requestsPerSecond)} requests per second of real time with the scheduler, ${grouped(bareRequestsPerSecond)} without (${share.toFixed(2)}).`;
}

/** At most four digits: `50`, `3.75`, `0.7813`. */
function short(value: number): string {
  return String(Number(value.toPrecision(4)));
}

/** `50 ms`, `2 s`: without rounding. @param ms >= 0 */
function duration(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${ms / 1000} s`;
}
