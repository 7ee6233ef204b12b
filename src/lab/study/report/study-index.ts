import {
  type RunResult,
  type Spread,
  type StudiedPolicy,
  type StudiedWorkload,
  type Study,
  spread,
} from "../result.ts";
import { type Figure, formatted, number, standing, TTFT_P90 } from "./figures.ts";

const NOTHING: Spread = { min: Number.NaN, median: Number.NaN, max: Number.NaN };

/** The least, the median and the most of the values; NaN without values. */
export function spreadOf(values: readonly number[]): Spread {
  return values.length === 0 ? NOTHING : spread(values);
}

/** The runs of a study by workload, rate and policy. An interrupted study lacks some of them. */
export class StudyIndex {
  readonly study: Study;
  readonly #runs: Map<string, RunResult[]>;

  constructor(study: Study) {
    this.study = study;
    this.#runs = Map.groupBy(study.runs, ({ workload, rate, policy }) => JSON.stringify([workload, rate, policy]));
  }

  /** One run per seed; empty when none was made. */
  runs({ name }: StudiedWorkload, rate: number, policy: string): readonly RunResult[] {
    return this.#runs.get(JSON.stringify([name, rate, policy])) ?? [];
  }

  /** The spread of a figure over seeds; NaN without runs. */
  spread(workload: StudiedWorkload, rate: number, policy: string, figure: Figure): Spread {
    return spreadOf(this.runs(workload, rate, policy).map((run) => figure.of(run)));
  }

  /** All runs of a workload. */
  runsOf({ name }: StudiedWorkload): readonly RunResult[] {
    return this.study.runs.filter(({ workload }) => workload === name);
  }

  /** The rates with runs, ascending. */
  rates(workload: StudiedWorkload): readonly number[] {
    return [...new Set(this.runsOf(workload).map(({ rate }) => rate))].sort((a, b) => a - b);
  }

  /** The highest rate with runs of all policies, else the highest rate; undefined without runs. */
  topRate(workload: StudiedWorkload): number | undefined {
    const rates = this.rates(workload);
    const whole = (rate: number): boolean =>
      this.study.policies.every(({ name }) => this.runs(workload, rate, name).length > 0);
    return rates.findLast(whole) ?? rates.at(-1);
  }
}

/** One workload at one rate: the figures for the sentences. */
export class Scene {
  readonly #index: StudyIndex;
  readonly #workload: StudiedWorkload;
  readonly #rate: number;
  /** Such as `60 requests/s`. */
  readonly at: string;

  constructor(index: StudyIndex, workload: StudiedWorkload, rate: number) {
    this.#index = index;
    this.#workload = workload;
    this.#rate = rate;
    this.at = `${number(rate)} ${workload.rateUnit}`;
  }

  runs(policy: string): readonly RunResult[] {
    return this.#index.runs(this.#workload, this.#rate, policy);
  }

  median(policy: string, figure: Figure): number {
    return this.#index.spread(this.#workload, this.#rate, policy, figure).median;
  }

  shown(policy: string, figure: Figure): string {
    return formatted(this.median(policy, figure), figure.unit);
  }

  /** Rejected requests divided by all requests, 0..1, the median over seeds. */
  rejected(policy: string): number {
    return spreadOf(this.runs(policy).map((run) => run.rejected / run.requests)).median;
  }

  /** The reason why a policy has no figure to compare; undefined when it has one. */
  silence(policy: string): string | undefined {
    const runs = this.runs(policy);
    if (runs.length === 0) return `${policy} was not run at ${this.at}`;
    if (Number.isFinite(this.median(policy, TTFT_P90))) return undefined;
    const empty = runs.filter((run) => run.finished === 0);
    const whole = empty.length === runs.length;
    const seeds = whole ? "" : ` with ${empty.length} of ${runs.length} seeds`;
    const all = empty.length > 0 && empty.every((run) => run.rejected === run.requests);
    if (all) return `${policy} rejected every request at ${this.at}${seeds}`;
    return empty.length > 0
      ? `${policy} finished no request at ${this.at}${seeds}`
      : `${policy} has no TTFT p90 at ${this.at}`;
  }

  /**
   * In how many seeds `winner` beats `loser` by a figure, such as `better in 2 of 3 seeds`. The same seed has the same
   * arrivals. A missing figure loses.
   */
  seeds(winner: string, loser: string, figure: Figure): string {
    const others = new Map(this.runs(loser).map((run) => [run.seed, figure.of(run)]));
    const paired = this.runs(winner).filter(({ seed }) => others.has(seed));
    const won = paired.filter((run) => {
      const [a, b] = [figure.of(run), others.get(run.seed)!];
      if (Number.isNaN(b)) return !Number.isNaN(a);
      return figure.better === "less" ? a < b : a > b;
    });
    return paired.length === 1 ? "one seed" : `better in ${won.length} of ${paired.length} seeds`;
  }

  /** The policies with a figure, the best first. */
  ranked(policies: readonly StudiedPolicy[]): string[] {
    return policies
      .map(({ name }) => name)
      .filter((name) => this.silence(name) === undefined)
      .sort((a, b) => this.median(a, TTFT_P90) - this.median(b, TTFT_P90));
  }

  /** The distance of a policy from the best one, and the best one's name; undefined when no policy is better by more than `EQUAL_WITHIN`. */
  behind(policy: string, policies: readonly StudiedPolicy[]): { factor: number; leader: string } | undefined {
    const [leader] = this.ranked(policies);
    if (leader === undefined || leader === policy) return undefined;
    if (this.silence(policy) !== undefined) return { factor: Number.POSITIVE_INFINITY, leader };
    const stands = standing(this.median(policy, TTFT_P90), this.median(leader, TTFT_P90), "less");
    return stands === undefined || stands.equal ? undefined : { factor: stands.factor, leader };
  }
}
