import type { Clock } from "../../base/clock/clock.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { VERSION } from "../../base/process/version.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import type { EffectiveConfig } from "../../picker/config/effective.ts";
import { type ConfigSource, checkedConfig } from "../../picker/core/config-source.ts";
import { instancesOf, planOf } from "../../picker/core/plan.ts";
import { BatchingEngine } from "../simulator/batching/batching-engine.ts";
import type { EnginePreset } from "../simulator/batching/config.ts";
import { leadMs, type WorkloadDefinition } from "../simulator/workloads/workload.ts";
import type { SimPickers } from "./picker-flags.ts";
import type { Policy } from "./policies.ts";
import type { RunResult, Study } from "./result.ts";
import { type Decides, play, Run, type RunOptions } from "./run.ts";
import { type Speed, speedOf } from "./speed.ts";

/** A workload with its settings for a study. */
export interface PlannedWorkload {
  readonly definition: WorkloadDefinition;
  readonly rates: readonly number[];
  readonly durationMs: number;
  readonly servers: number;
  readonly preset: EnginePreset;
  readonly scrapeIntervalMs: number;
  readonly metricsLagMs: number;
  /** Bytes of a token's text, 1 to 16; absent = 4. */
  readonly bytesPerToken?: number | undefined;
  /** As of `RunOptions`. */
  readonly restartEveryMs?: number | undefined;
  /** Absent = one. */
  readonly pickers?: SimPickers | undefined;
}

export interface StudyPlan {
  readonly workloads: readonly PlannedWorkload[];
  readonly policies: readonly Policy[];
  readonly seeds: readonly number[];
  /** Whether to keep loads over time, for plots. */
  readonly samples: boolean;
}

export interface StudyProgress {
  /** Number of finished runs, and of all runs. */
  readonly done: number;
  readonly total: number;
  /** The current run, for people. */
  readonly running: string;
  /** Share of all expected requests that are done, 0..1. */
  readonly share: number;
  /** Simulated requests per second of real time so far. */
  readonly requestsPerSecond: number;
}

export interface StudyOptions {
  /** Called once, when the configurations of all policies are checked and the runs begin. */
  onChecked?(): void;
  onProgress?(progress: StudyProgress): void;
  /** Ends the study with the runs that are finished. */
  readonly signal?: AbortSignal;
  /** Real time, for progress and speed; default `realClock`. */
  readonly clock?: Pick<Clock, "now">;
}

/** One run of the plan. */
interface PlannedRun {
  readonly workload: PlannedWorkload;
  readonly rate: number;
  readonly policy: Policy;
  readonly config: EffectiveConfig | undefined;
  readonly seed: number;
  /** Approximate number of its requests. */
  readonly weight: number;
}

/**
 * Runs every workload at every rate with every seed under every policy, one after the other.
 * @throws SluiceError for a faulty configuration of a policy, before anything runs
 */
export async function runStudy(plan: StudyPlan, options: StudyOptions = {}): Promise<Study> {
  const planned = await plannedRuns(plan);
  options.onChecked?.();
  // With a very low rate, no request may be expected at all.
  const whole = Math.max(
    Number.MIN_VALUE,
    planned.reduce((sum, { weight }) => sum + weight, 0),
  );
  const runs: RunResult[] = [];
  let behind = 0;
  let requests = 0;
  let seconds = 0;
  for (const one of planned) {
    const ended = await played(one, plan.samples, options, (share, more, busy) =>
      options.onProgress?.({
        done: runs.length,
        total: planned.length,
        running: `${one.workload.definition.name} at ${one.rate}, ${one.policy.name}, seed ${one.seed}`,
        share: (behind + share * one.weight) / whole,
        requestsPerSecond: (requests + more) / (seconds + busy),
      }),
    );
    if (ended === undefined) break;
    runs.push(ended.result);
    behind += one.weight;
    requests += ended.requests;
    seconds += ended.result.seconds;
    if (options.signal?.aborted) break;
  }
  const speed = options.signal?.aborted ? undefined : await studySpeed(planned, options.signal);
  return {
    version: VERSION,
    workloads: plan.workloads.map(({ definition, preset, ...settings }) => {
      const { name, about, rateUnit, warmUp } = definition;
      return { name, about, rateUnit, warmUp, preset: preset.name, ...settings };
    }),
    policies: plan.policies.map(({ name, about }) => ({ name, about })),
    seeds: plan.seeds,
    runs,
    speed,
  };
}

/** Seed by seed at each rate, so an interrupted study has all policies at its last rate. */
async function plannedRuns({ workloads, policies, seeds }: StudyPlan): Promise<PlannedRun[]> {
  const configs = new Map<ConfigSource, EffectiveConfig>();
  for (const { definition } of workloads)
    for (const policy of policies) {
      const source = sourceFor(policy, definition);
      if (source !== undefined && !configs.has(source)) configs.set(source, await playable(policy.name, source));
    }
  return workloads.flatMap((workload) => {
    const expected = expectedRequests(workload);
    return workload.rates.flatMap((rate, i) =>
      seeds.flatMap((seed) =>
        policies.map((policy) => {
          const source = sourceFor(policy, workload.definition);
          const config = source === undefined ? undefined : configs.get(source);
          return { workload, rate, seed, policy, config, weight: expected[i]! };
        }),
      ),
    );
  });
}

/** The configuration of a policy for the servers of a workload; undefined = the policy has a rule. */
function sourceFor({ source, disaggregated }: Policy, { prefillShare }: WorkloadDefinition): ConfigSource | undefined {
  return prefillShare === undefined ? source : (disaggregated ?? source);
}

/** @throws SluiceError for a faulty configuration; FLAG_VALUE for plugins that virtual time cannot wait for */
async function playable(policy: string, source: ConfigSource): Promise<EffectiveConfig> {
  const config = await checkedConfig(source, silentLogger);
  const instances = instancesOf(config, { clock: new VirtualClock(), random: new SeededRandom(1), log: silentLogger });
  try {
    const waits = planOf(config, instances).producers.find(({ plugin }) => plugin.prepare !== undefined);
    instances.make(config.detector);
    if (waits === undefined) return config;
    const named = waits.name === waits.type ? waits.type : `${waits.name}, a ${waits.type}`;
    throw new SluiceError(
      "FLAG_VALUE",
      `policy ${policy} cannot be simulated: before each decision it waits for its plugin ${named}, and ` +
        "simulated time cannot wait; remove the plugin from the file",
    );
  } finally {
    instances.close();
  }
}

/**
 * The speed of the largest run of at most `SPEED_REQUESTS` requests that the scheduler decides, else of the smallest run. The
 * measurement repeats the run, so a long one would take too long.
 */
async function studySpeed(planned: readonly PlannedRun[], signal: AbortSignal | undefined): Promise<Speed | undefined> {
  // A run with queues or with stages cannot be repeated without a scheduler.
  const repeatable = ({ config, workload }: PlannedRun): boolean =>
    config !== undefined && config.flowControl === undefined && workload.definition.prefillShare === undefined;
  const candidates = planned.filter(repeatable).sort((a, b) => b.weight - a.weight);
  const one = candidates.find(({ weight }) => weight <= SPEED_REQUESTS) ?? candidates.at(-1);
  return one && speedOf(() => runOptions(one.workload, one.rate, one.seed), one.config!, signal);
}

const SPEED_REQUESTS = 20_000;

/** @returns undefined when it was interrupted */
async function played(
  planned: PlannedRun,
  samples: boolean,
  { signal, clock }: StudyOptions,
  onProgress: (share: number, requests: number, seconds: number) => void,
): Promise<{ readonly result: RunResult; readonly requests: number } | undefined> {
  const { workload, rate, policy, config, seed } = planned;
  const decides: Decides = config === undefined ? { rule: policy.rule!() } : { config };
  const run = new Run({ ...runOptions(workload, rate, seed), decides, samples });
  const seconds = await play(run, { signal, clock, onTurn: (busy) => onProgress(run.share, run.requests, busy) });
  if (seconds === undefined) return undefined;
  const named = { workload: workload.definition.name, rate, policy: policy.name };
  return { result: { ...named, ...run.figures(), seconds }, requests: run.requests };
}

/** The options of a planned workload, without the policy. */
export function runOptions(workload: PlannedWorkload, rate: number, seed: number): Omit<RunOptions, "decides"> {
  const { definition, durationMs, servers, preset, scrapeIntervalMs, metricsLagMs, bytesPerToken, pickers } = workload;
  const config = {
    ...preset.config,
    ...(definition.loraSlots === undefined ? {} : { maxLoras: definition.loraSlots }),
  };
  const { warmUp, serversAtMs, prefillShare } = definition;
  return {
    workload: definition.make({ rate, durationMs, servers, warmUp }),
    engine: (_, parts) => new BatchingEngine({ config, ...parts }),
    ...{ durationMs, servers, seed, scrapeIntervalMs, metricsLagMs, warmUpMs: leadMs(warmUp), bytesPerToken },
    ...{ serversAtMs, prefillShare, pickers, restartEveryMs: workload.restartEveryMs },
  };
}

/** The unit of workloads whose arrivals follow the rate exactly. */
const PLAIN = "requests/s";
/** Assumed duration of every answer, in milliseconds: only requests that wait for answers depend on it. */
const ANSWER_MS = 10_000;
/** The most requests that are counted; the rest of the time is assumed to be the same. */
const MOST_COUNTED = 20_000;

interface ExpectedOptions {
  readonly definition: WorkloadDefinition;
  readonly rates: readonly number[];
  readonly durationMs: number;
  readonly servers: number;
}

/**
 * The approximate number of requests of a run at each of the rates. A workload with another unit is tried without servers at
 * its lowest rate; the other rates are assumed to be in proportion.
 */
export function expectedRequests({ definition, rates, durationMs, servers }: ExpectedOptions): readonly number[] {
  const { rate: warmRate = 0, durationMs: warmMs = 0 } = definition.warmUp ?? {};
  const before = (warmRate * warmMs) / 1000;
  if (definition.rateUnit === PLAIN) return rates.map((rate) => before + (rate * durationMs) / 1000);
  const lowest = Math.min(...rates);
  const clock = new VirtualClock();
  let requests = 0;
  definition.make({ rate: lowest, durationMs, servers }).start({
    clock,
    random: new SeededRandom(1),
    send(_, ended) {
      requests++;
      if (ended !== undefined) clock.after(ANSWER_MS, () => ended("finished"));
    },
  });
  while (clock.now() < durationMs && requests < MOST_COUNTED) clock.advance(Math.min(1000, durationMs - clock.now()));
  const perRate = (requests * (durationMs / Math.max(1, clock.now()))) / lowest;
  return rates.map((rate) => rate * perRate);
}
