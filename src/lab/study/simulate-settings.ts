import { grouped } from "../../base/document/words.ts";
import { LEAST_BYTES_PER_TOKEN, MOST_BYTES_PER_TOKEN } from "../../base/inference/bytes-per-token.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { EnginePreset } from "../simulator/batching/config.ts";
import type { WorkloadDefinition } from "../simulator/workloads/workload.ts";
import { SCRAPE_INTERVAL as USUAL_SCRAPE_INTERVAL } from "./cluster.ts";
import { named, rateFlag, separate, type TimeRange, timeFlag, wholeFlag } from "./flag-values.ts";
import { type PickerFlags, pickersOf } from "./picker-flags.ts";
import type { Policy } from "./policies.ts";
import { expectedRequests, type StudyPlan } from "./study.ts";

/** The named things of a study. */
export interface SimulateCatalogue {
  readonly workloads: readonly WorkloadDefinition[];
  readonly policies: readonly Policy[];
  readonly presets: readonly EnginePreset[];
  /** A configuration file as a policy. */
  filePolicy(file: string, allowExperimental: boolean): Policy;
}

/** The flags of the command line, as text. */
export interface SimulateFlags extends PickerFlags {
  readonly policy?: readonly string[] | undefined;
  readonly configFile?: readonly string[] | undefined;
  readonly allowExperimentalPlugins?: boolean | undefined;
  readonly rate?: readonly string[] | undefined;
  readonly duration?: string | undefined;
  /** Without the warm-ups of the workloads. */
  readonly cold?: boolean | undefined;
  readonly servers?: string | undefined;
  readonly engine?: string | undefined;
  readonly seeds?: string | undefined;
  readonly seed?: string | undefined;
  readonly scrapeInterval?: string | undefined;
  readonly metricsLag?: string | undefined;
  readonly bytesPerToken?: string | undefined;
  readonly quick?: boolean | undefined;
}

/** The amount of work in a plan. */
export interface PlanSize {
  /** One for each workload, rate, policy and seed. */
  readonly runs: number;
  /** Approximate number. */
  readonly requests: number;
}

const DEFAULT_WORKLOAD = "b2b-saas";
/** Simplest first: ratios are to the first. */
const DEFAULT_POLICIES: readonly string[] = [
  "round-robin",
  "least-active",
  "scraped-queue",
  "default",
  "sticky-until-saturated",
];
const DEFAULT_SEEDS = 3;
const DURATION: TimeRange = { least: 1000, most: 3_600_000, wanted: "a time from 1s to 1h, for example 45s" };
const SCRAPE_INTERVAL: TimeRange = { least: 1, most: 60_000, wanted: "a time from 1ms to 1m, for example 50ms" };
const METRICS_LAG: TimeRange = { least: 0, most: 600_000, wanted: "a time from 0 to 10m, for example 5s" };
const MAX_POLICIES = 16;
const MAX_RATES = 16;
export const MAX_RATE = 10_000;
export const MAX_SEEDS = 100;
export const MAX_SERVERS = 512;
/** Number of rates of a workload's ladder that run by default: the first results appear after about 20 s. */
const DEFAULT_RATES = 4;
/** Number of rates with `--quick`: the least, one in the middle and the most. */
const QUICK_RATES = 3;
/** About half an hour of a core. Results stay in memory for each run, not for each request. */
const MAX_REQUESTS = 10_000_000;

/**
 * The plan of a study from the command line.
 * @param names of workloads; none = `b2b-saas`, `all` = all of them
 * @throws SluiceError FLAG_VALUE, FLAG_CONFLICT
 */
export function simulateSettings(
  names: readonly string[],
  flags: SimulateFlags,
  catalogue: SimulateCatalogue,
): StudyPlan {
  const workloads = workloadsOf(names, catalogue);
  const policies = policiesOf(flags, catalogue, workloads);
  const everyRate = flags.rate?.includes("all") === true;
  for (const word of separate(flags.rate ?? [])) refuseEaten(word, "--rate", [], catalogue.workloads);
  const rates = flags.rate === undefined || everyRate ? undefined : ratesOf(flags.rate);
  const most = everyRate ? MAX_RATES : flags.quick ? QUICK_RATES : DEFAULT_RATES;
  const preset = flags.engine === undefined ? undefined : presetOf(flags.engine, catalogue.presets);
  const durationMs = timeFlag(flags.duration, "--duration", DURATION);
  const scrapeIntervalMs = timeFlag(flags.scrapeInterval, "--scrape-interval", SCRAPE_INTERVAL);
  const metricsLagMs = timeFlag(flags.metricsLag, "--metrics-lag", METRICS_LAG);
  const bytesPerToken = flags.bytesPerToken === undefined ? undefined : bytesPerTokenOf(flags.bytesPerToken);
  const pickers = pickersOf(flags);
  const servers = flags.servers === undefined ? undefined : wholeFlag(flags.servers, "--servers", 1, MAX_SERVERS);
  const count = flags.seeds === undefined ? undefined : wholeFlag(flags.seeds, "--seeds", 1, MAX_SEEDS);
  const seeds = count ?? (flags.quick ? 1 : DEFAULT_SEEDS);
  const first = wholeFlag(flags.seed ?? "1", "--seed", 0, 2 ** 32 - seeds);
  return {
    workloads: workloads.map((definition) => ({
      definition: warmedFor(servers ?? definition.servers, definition, flags.cold === true),
      rates: rates ?? thinned(definition.rates, most),
      durationMs: durationMs ?? definition.durationMs,
      servers: servers ?? definition.servers,
      preset: preset ?? presetOf(definition.preset, catalogue.presets),
      scrapeIntervalMs: scrapeIntervalMs ?? definition.scrapeIntervalMs ?? USUAL_SCRAPE_INTERVAL,
      metricsLagMs: metricsLagMs ?? definition.metricsLagMs ?? 0,
      ...(bytesPerToken === undefined ? {} : { bytesPerToken }),
      ...(pickers === undefined ? {} : { pickers }),
    })),
    policies,
    seeds: Array.from({ length: seeds }, (_, i) => first + i),
    samples: false,
  };
}

/** The warm-up with the same requests per server as in the definition: a warm-up for eight servers would flood two. */
function warmedFor(servers: number, definition: WorkloadDefinition, cold: boolean): WorkloadDefinition {
  const { warmUp } = definition;
  if (warmUp === undefined || (!cold && servers === definition.servers)) return definition;
  if (cold) return { ...definition, warmUp: undefined };
  const times = servers / definition.servers;
  return { ...definition, warmUp: { ...warmUp, rate: warmUp.rate * times, durationMs: warmUp.durationMs / times } };
}

/**
 * The amount of work in a plan.
 * @throws SluiceError FLAG_VALUE for more than `MAX_REQUESTS`
 */
export function planSize({ workloads, policies, seeds }: StudyPlan): PlanSize {
  const times = policies.length * seeds.length;
  const expected = workloads.flatMap(expectedRequests);
  const requests = expected.reduce((sum, more) => sum + more, 0) * times;
  if (requests > MAX_REQUESTS)
    throw new SluiceError(
      "FLAG_VALUE",
      `this study has about ${grouped(requests)} requests; the limit is ${grouped(MAX_REQUESTS)}. ` +
        "Lower --rate, --seeds or --duration, or give fewer --policy flags",
    );
  return { runs: expected.length * times, requests };
}

/** At most `count` of `values`, evenly spaced, with the first and the last among them. @param count >= 2 */
function thinned(values: readonly number[], count: number): readonly number[] {
  if (values.length <= count) return values;
  return Array.from({ length: count }, (_, i) => values[Math.round((i * (values.length - 1)) / (count - 1))]!);
}

function workloadsOf(names: readonly string[], { workloads }: SimulateCatalogue): readonly WorkloadDefinition[] {
  const wanted = separate(names);
  if (wanted.length === 0) wanted.push(DEFAULT_WORKLOAD);
  if (wanted.includes("all")) return workloads;
  return [...new Set(wanted)].map((name) => named(name, "workload", workloads));
}

/** The policies that the workloads name if all name some, else the usual ones. */
function usualPolicies(chosen: readonly WorkloadDefinition[]): readonly string[] {
  const named = chosen.map(({ policies }) => policies);
  if (named.some((policies) => policies === undefined)) return DEFAULT_POLICIES;
  return named.flatMap((policies) => policies ?? []);
}

function policiesOf(
  flags: SimulateFlags,
  catalogue: SimulateCatalogue,
  chosenWorkloads: readonly WorkloadDefinition[],
): readonly Policy[] {
  const { policies, workloads } = catalogue;
  const wanted = separate(flags.policy ?? usualPolicies(chosenWorkloads));
  const chosen = wanted.includes("all")
    ? [...policies]
    : [...new Set(wanted)].map((name) => {
        refuseEaten(name, "--policy", policies, workloads);
        return named(name, "policy", policies, "--policy");
      });
  for (const file of new Set(flags.configFile)) {
    refuseEaten(file, "--config-file", [], workloads);
    const policy = catalogue.filePolicy(file, flags.allowExperimentalPlugins === true);
    // Two files in two folders may have one name. Then the name of each is its path.
    const taken = chosen.some(({ name }) => name === policy.name);
    if (taken && chosen.some(({ name }) => name === file))
      throw new SluiceError(
        "FLAG_CONFLICT",
        `--config-file ${file} has the name of another policy; write its path in another way, for example ./${file}`,
      );
    chosen.push(taken ? { ...policy, name: file } : policy);
  }
  if (chosen.length > MAX_POLICIES)
    throw new SluiceError(
      "FLAG_VALUE",
      `${chosen.length} policies are too many to compare; give at most ${MAX_POLICIES}`,
    );
  return chosen;
}

/** An option with several values also takes the names of workloads after it. */
function refuseEaten(
  word: string,
  flag: string,
  known: readonly { readonly name: string }[],
  workloads: readonly WorkloadDefinition[],
): void {
  if (known.some(({ name }) => name === word) || !workloads.some(({ name }) => name === word)) return;
  throw new SluiceError(
    "FLAG_VALUE",
    `${flag} took the workload ${word} for one of its values; name workloads before the options: sluice simulate ${word} ${flag} ...`,
  );
}

function bytesPerTokenOf(text: string): number {
  const value = Number(text);
  if (/^\d+(\.\d+)?$/.test(text) && value >= LEAST_BYTES_PER_TOKEN && value <= MOST_BYTES_PER_TOKEN) return value;
  throw new SluiceError(
    "FLAG_VALUE",
    `--bytes-per-token is ${JSON.stringify(text.slice(0, 100))}; give a number from ${LEAST_BYTES_PER_TOKEN} to ${MOST_BYTES_PER_TOKEN}, for example 5.5`,
  );
}

function presetOf(name: string, presets: readonly EnginePreset[]): EnginePreset {
  return named(name, "engine preset", presets, "--engine");
}

function ratesOf(texts: readonly string[]): readonly number[] {
  const ladder = new Set(separate(texts).map((text) => rateFlag(text, "--rate", MAX_RATE)));
  if (ladder.size === 0)
    throw new SluiceError("FLAG_VALUE", "--rate is empty; give numbers, for example --rate 10 20 40");
  if (ladder.size > MAX_RATES)
    throw new SluiceError("FLAG_VALUE", `--rate has ${ladder.size} rates; give at most ${MAX_RATES}`);
  return [...ladder].sort((a, b) => a - b);
}
