/**
 * The aims of flow control in simulation, with several seeds: held or not, with the figures of each seed.
 *
 *   node bench/flowcontrol-study.ts [--seeds 10] [--duration 45s] [--only noisy|realtime] [--config-file FILE]...
 *
 * 1. With a neighbour that sends ten times its share, the TTFT p90 of the other tenants is at most 1.25 times that of the same
 *    requests alone. A last row gives the neighbour priority -1: it shows what a lower ceiling for the neighbour would do.
 * 2. Beside a sheddable backlog, the TTFT p99 of realtime requests is at most 1.1 times that of realtime alone; at most 3 % of
 *    the computed tokens are wasted by eviction; the backlog gets at least 70 % of an oracle's tokens. The oracle gives it what
 *    it gets alone, less the share of the servers that realtime needs: its tokens/s by those of 400 realtime requests/s, which
 *    is more than the servers can do. The last rows give realtime and backlog servers of their own, without flow control.
 *
 * Virtual time: the figures are the same on every machine.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { WorkloadDefinition, WorkloadRequest } from "../src/lab/simulator/workloads/workload.ts";
import { CATALOGUE } from "../src/lab/study/catalogue.ts";
import { backlogPerSecond, type KindResult, type RunResult } from "../src/lab/study/result.ts";
import { simulateSettings } from "../src/lab/study/simulate-settings.ts";
import { runStudy } from "../src/lab/study/study.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "10" },
    duration: { type: "string", default: "45s" },
    only: { type: "string", default: "" },
    "config-file": { type: "string", multiple: true, default: [] },
  },
});
const NOISY_RATE = 15;
const REALTIME_RATE = 60;
/** More than the servers can do of realtime requests alone. */
const FLOOD_RATE = 400;
const COUNTED = join(import.meta.dirname, "data", "flow-counted.yaml");
const RESERVE = join(import.meta.dirname, "data", "flow-reserve.yaml");
const PENDING = join(import.meta.dirname, "data", "flow-pending.yaml");
const POLICIES = ["default", "flow-control", "holdback", "eviction", "token-fairness"];

/** What becomes of each request of a workload; undefined = it is never sent. */
type Change = (request: WorkloadRequest) => WorkloadRequest | undefined;

/** The same arrivals with some requests changed or left out. */
function changed(definition: WorkloadDefinition, change: Change): WorkloadDefinition {
  return {
    ...definition,
    make(settings) {
      const workload = definition.make(settings);
      return {
        start: ({ clock, random, send }) =>
          workload.start({
            ...{ clock, random },
            send(request, ended) {
              const wanted = change(request);
              if (wanted !== undefined) send(wanted, ended);
            },
          }),
      };
    },
  };
}

/** One run per seed, for each policy by name. */
async function runsOf(
  workload: string,
  rate: number,
  change: Change,
  policy: readonly string[],
  configFile: readonly string[] = [],
  servers?: number,
): Promise<Map<string, readonly RunResult[]>> {
  const { seeds, duration } = values;
  const flags = {
    policy,
    configFile,
    allowExperimentalPlugins: true,
    rate: [`${rate}`],
    seeds,
    duration,
    servers: servers?.toString(),
  };
  const plan = simulateSettings([workload], flags, CATALOGUE);
  const workloads = plan.workloads.map((one) => ({ ...one, definition: changed(one.definition, change) }));
  const { runs } = await runStudy({ ...plan, workloads });
  return Map.groupBy(runs, (run) => run.policy);
}

const ofKind = ({ kinds }: RunResult, kind: string): KindResult => kinds.find((one) => one.kind === kind)!;
const only =
  (kind: string): Change =>
  (request) =>
    request.kind === kind ? request : undefined;
const mean = (list: readonly number[]): number => list.reduce((sum, value) => sum + value, 0) / list.length;

/** A figure of each seed with its limit. */
interface Aim {
  readonly name: string;
  readonly values: readonly number[];
  readonly limit: number;
  readonly best: "least" | "most";
  readonly digits: number;
}

function print(policy: string, aims: readonly Aim[]): void {
  for (const { name, values: list, limit, best, digits } of aims) {
    const holds = (value: number): boolean => (best === "least" ? value <= limit : value >= limit);
    const each = list.map((value) => value.toFixed(digits)).join(" ");
    const verdict = holds(mean(list)) ? "held    " : "NOT HELD";
    const seeds = `${list.filter(holds).length} of ${list.length} seeds`;
    const bound = `${best === "least" ? "<=" : ">="} ${limit}`;
    console.log(
      `${verdict} ${policy.padEnd(26)} ${name.padEnd(22)} mean ${mean(list).toFixed(digits).padStart(7)} ${bound.padEnd(8)} ${seeds.padEnd(15)} ${each}`,
    );
  }
}

async function noisyNeighbour(): Promise<void> {
  const p90 = (run: RunResult): number => ofKind(run, "quiet").ttft.p90;
  const run = (change: Change, policies: readonly string[], files: readonly string[] = []) =>
    runsOf("noisy-neighbour", NOISY_RATE, change, policies, files);
  const alone = (await run(only("quiet"), ["default"])).get("default")!.map(p90);
  console.log(`\n# A neighbour at ten times its share; the others alone: TTFT p90 ${mean(alone).toFixed(0)} ms\n`);
  const tell = (policy: string, runs: readonly RunResult[]): void => {
    print(policy, [
      {
        ...{ name: "TTFT p90 by alone", limit: 1.25, best: "least", digits: 2 },
        values: runs.map((one, i) => p90(one) / alone[i]!),
      },
    ]);
    const wait = mean(runs.map((one) => ofKind(one, "quiet").wait.p90));
    const waits = Number.isNaN(wait) ? "" : `, wait p90 of the others ${wait.toFixed(0)} ms`;
    const refused = mean(runs.map((one) => ofKind(one, "quiet").rejected / ofKind(one, "quiet").requests));
    const figures = `Jain ${mean(runs.map(({ jain }) => jain)).toFixed(2)}${waits}, refused of the others ${(100 * refused).toFixed(1)} %`;
    console.log(`         ${"".padEnd(26)} ${figures}`);
  };
  const all = await run((request) => request, POLICIES, [COUNTED, RESERVE, ...values["config-file"]]);
  for (const [policy, runs] of all) tell(policy, runs);
  const lower: Change = (request) => (request.kind === "noisy" ? { ...request, priority: -1 } : request);
  for (const runs of (await run(lower, [], [COUNTED])).values()) tell("flow-counted, neighbour -1", runs);
}

async function realtime(): Promise<void> {
  const run = (rate: number, change: Change, policies: readonly string[], files: readonly string[] = []) =>
    runsOf("realtime-with-batch", rate, change, policies, files);
  const alone = (await run(REALTIME_RATE, only("realtime"), ["default"])).get("default")!;
  const flood = (await run(FLOOD_RATE, only("realtime"), ["default"])).get("default")!;
  const batch = (await run(REALTIME_RATE, only("batch"), ["flow-control"])).get("flow-control")!;
  const p99 = (one: RunResult): number => ofKind(one, "realtime").ttft.p99;
  const served = (one: RunResult): number => ofKind(one, "realtime").servedPerSecond;
  const oracle = batch.map((one, i) => backlogPerSecond(one) * (1 - served(alone[i]!) / served(flood[i]!)));
  const share = 1 - mean(alone.map((one, i) => served(one) / served(flood[i]!)));
  console.log(
    `\n# Realtime beside a sheddable backlog; realtime alone: TTFT p99 ${mean(alone.map(p99)).toFixed(0)} ms; backlog alone ` +
      `${mean(batch.map(backlogPerSecond)).toFixed(0)} tokens/s, of which ${(100 * share).toFixed(0)} % for the oracle\n`,
  );
  const times = (runs: readonly RunResult[]): Aim => ({
    ...{ name: "TTFT p99 by alone", limit: 1.1, best: "least", digits: 2 },
    values: runs.map((one, i) => p99(one) / p99(alone[i]!)),
  });
  const waste = (runs: readonly RunResult[]): Aim => ({
    ...{ name: "wasted, %", limit: 3, best: "least", digits: 1 },
    values: runs.map(({ wasted }) => 100 * wasted),
  });
  const yields = (runs: readonly RunResult[]): Aim => ({
    ...{ name: "backlog by oracle", limit: 0.7, best: "most", digits: 2 },
    values: runs.map((one, i) => backlogPerSecond(one) / oracle[i]!),
  });
  const all = await run(REALTIME_RATE, (request) => request, POLICIES, [COUNTED, PENDING, ...values["config-file"]]);
  for (const [policy, runs] of all) {
    print(policy, [times(runs), waste(runs), yields(runs)]);
    const wait = mean(runs.map((one) => ofKind(one, "realtime").wait.p99));
    if (!Number.isNaN(wait))
      console.log(`         ${"".padEnd(26)} wait p99 of realtime in flow control ${wait.toFixed(0)} ms`);
  }
  for (const servers of [6, 5]) {
    const apart = (kind: string, count: number) =>
      runsOf("realtime-with-batch", REALTIME_RATE, only(kind), ["default"], [], count);
    const urgent = (await apart("realtime", servers)).get("default")!;
    const rest = (await apart("batch", 8 - servers)).get("default")!;
    print(`apart: ${servers} and ${8 - servers} servers`, [times(urgent), yields(rest)]);
  }
}

if ("noisy".includes(values.only)) await noisyNeighbour();
if ("realtime".includes(values.only)) await realtime();
