/**
 * Several pickers that share what they know against a single one, in the simulation: what must hold of TTFT p90 and p99 and of the
 * evenness of the load, with the messages of peers 20 ms late, and with 5 % of them lost. Also printed: what it costs to share nothing;
 * and what the delay costs by itself: pickers that know all that the others did 20 ms ago, without messages and without rules for what
 * they do not know, as one picker would that learns of most of its own decisions 20 ms late.
 *
 *   node bench/replicas-routing.ts [--seeds 5] [--pickers 2,4,8] [--only PART-OF-A-NAME] [--trace MOONCAKE-FILE] [--window 10m]
 *                                  [--profile default] [--delay 20ms]
 *
 * Virtual time: the figures are the same on every machine. What is judged is the mean over the seeds; beside it, how far seeds lie apart.
 */
import { parseArgs } from "node:util";
import { CATALOGUE } from "../src/lab/study/catalogue.ts";
import type { RunResult } from "../src/lab/study/result.ts";
import { type SimulateFlags, simulateSettings } from "../src/lab/study/simulate-settings.ts";
import { type PlannedWorkload, runStudy, type StudyPlan } from "../src/lab/study/study.ts";
import { traceSettings } from "../src/lab/study/trace/trace-settings.ts";

/** The most that a figure may be of that of one picker; and how much less even the load may be. */
const LIMITS = { shared: 1.1, lossy: 1.15, evenness: 0.1 };
const LOSS = "0.05";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "5" },
    pickers: { type: "string", default: "2,4,8" },
    only: { type: "string", default: "" },
    trace: { type: "string" },
    window: { type: "string", default: "10m" },
    profile: { type: "string", default: "default" },
    delay: { type: "string", default: "20ms" },
  },
});

interface Case {
  readonly name: string;
  plan(flags: SimulateFlags): Promise<StudyPlan>;
}

function ofWorkload(workload: string, rate: string): Case {
  return {
    name: `${workload} at ${rate}`,
    plan: async (flags) => simulateSettings([workload], { ...flags, rate: [rate] }, CATALOGUE),
  };
}

const { trace, window, delay: DELAY } = values;
const CASES: readonly Case[] = [
  ofWorkload("hot-prefix", "30"),
  ofWorkload("b2b-saas", "40"),
  ofWorkload("agents", "1"),
  ofWorkload("bursts", "800"),
  ofWorkload("conversations", "4"),
  ...(trace === undefined
    ? []
    : [
        {
          name: "Mooncake trace",
          plan: async (flags: SimulateFlags) => (await traceSettings(trace, { ...flags, window }, CATALOGUE)).plan,
        },
      ]),
];

interface Figures {
  /** Of each seed. */
  readonly p90s: readonly number[];
  readonly p90: number;
  readonly p99: number;
  readonly evenness: number;
  readonly hits: number;
}

const summary: string[] = [];
let failed = false;
for (const one of CASES) {
  if (!one.name.includes(values.only)) continue;
  console.log(`\n# ${one.name}, ${values.seeds} seeds\n`);
  console.log("pickers               TTFT p90 ms  of seeds          p99 ms         max/mean load   hits");
  const single = await played(one, {});
  print("1", single, single);
  for (const count of values.pickers.split(",")) {
    const shared = await played(one, { pickers: count, peerDelay: DELAY });
    const lossy = await played(one, { pickers: count, peerDelay: DELAY, peerLoss: LOSS });
    const apart = await played(one, { pickers: count, peerDelay: "off" });
    print(`${count}, ${DELAY}`, shared, single);
    print(`${count}, ${DELAY}, 5 % lost`, lossy, single);
    print(`${count}, share nothing`, apart, single);
    print(`${count}, all, ${DELAY} late`, await played(one, { pickers: count, peerDelay: DELAY }, true), single);
    judge(`${one.name}, ${count} pickers`, shared, single, LIMITS.shared);
    judge(`${one.name}, ${count} pickers, 5 % lost`, lossy, single, LIMITS.lossy);
  }
}
console.log(`\n# Summary\n\n${summary.join("\n")}`);
if (failed) process.exitCode = 1;

/** @param exact whether the pickers know all of each other, late */
async function played(one: Case, flags: SimulateFlags, exact = false): Promise<Figures> {
  const plan = await one.plan({ ...flags, policy: [values.profile], seeds: values.seeds });
  const { runs } = await runStudy({ ...plan, workloads: plan.workloads.map((workload) => sharedBy(workload, exact)) });
  const mean = (of: (run: RunResult) => number): number => runs.reduce((sum, run) => sum + of(run), 0) / runs.length;
  return {
    p90s: runs.map(({ ttft }) => ttft.p90),
    p90: mean(({ ttft }) => ttft.p90),
    p99: mean(({ ttft }) => ttft.p99),
    evenness: mean(({ maxToMeanLoad }) => maxToMeanLoad),
    hits: mean(({ hitRate }) => hitRate),
  };
}

function sharedBy(workload: PlannedWorkload, exact: boolean): PlannedWorkload {
  const { pickers } = workload;
  return pickers?.sharing === undefined
    ? workload
    : { ...workload, pickers: { ...pickers, sharing: { ...pickers.sharing, exact } } };
}

function print(name: string, { p90s, p90, p99, evenness, hits }: Figures, single: Figures): void {
  const ratios = p90s.map((value, i) => value / single.p90s[i]!);
  const range = `${Math.min(...ratios).toFixed(2)}-${Math.max(...ratios).toFixed(2)}`;
  const ratio = (value: number, of: number): string => `${value.toFixed(0).padStart(7)} ${(value / of).toFixed(2)}x`;
  console.log(
    `${name.padEnd(20)} ${ratio(p90, single.p90)} ${range.padStart(9)}  ${ratio(p99, single.p99)}  ${evenness.toFixed(2).padStart(8)} ${(evenness - single.evenness).toFixed(2).padStart(6)}  ${hits.toFixed(3).padStart(7)}`,
  );
}

function judge(name: string, given: Figures, single: Figures, limit: number): void {
  const worst = Math.max(given.p90 / single.p90, given.p99 / single.p99);
  const uneven = given.evenness - single.evenness;
  const met = worst <= limit && uneven <= LIMITS.evenness;
  failed ||= !met;
  summary.push(
    `${met ? "met    " : "NOT MET"}  ${name}: p90 ${(given.p90 / single.p90).toFixed(2)}x, p99 ${(given.p99 / single.p99).toFixed(2)}x (limit ${limit}), load ${uneven >= 0 ? "+" : ""}${uneven.toFixed(2)} (limit +${LIMITS.evenness})`,
  );
}
