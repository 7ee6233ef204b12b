import { type RunResult, type Spread, type StudiedWorkload, type Study, spread } from "../result.ts";
import type { Figure } from "./figures.ts";

const NOTHING: Spread = { min: Number.NaN, median: Number.NaN, max: Number.NaN };

/** The least, the median and the most of what there is; NaN where there is nothing. */
export function spreadOf(values: readonly number[]): Spread {
  return values.length === 0 ? NOTHING : spread(values);
}

/** The runs of a study, found by workload, rate and policy. A study that was cut short lacks some of them. */
export class StudyIndex {
  readonly study: Study;
  readonly #runs: Map<string, RunResult[]>;

  constructor(study: Study) {
    this.study = study;
    this.#runs = Map.groupBy(study.runs, ({ workload, rate, policy }) => JSON.stringify([workload, rate, policy]));
  }

  /** One per seed; empty where that was not run. */
  runs({ name }: StudiedWorkload, rate: number, policy: string): readonly RunResult[] {
    return this.#runs.get(JSON.stringify([name, rate, policy])) ?? [];
  }

  /** Of a figure over seeds; NaN where there are no runs. */
  spread(workload: StudiedWorkload, rate: number, policy: string, figure: Figure): Spread {
    return spreadOf(this.runs(workload, rate, policy).map((run) => figure.of(run)));
  }

  /** All runs of a workload. */
  runsOf({ name }: StudiedWorkload): readonly RunResult[] {
    return this.study.runs.filter(({ workload }) => workload === name);
  }

  /** The rates that were run, ascending. */
  rates(workload: StudiedWorkload): readonly number[] {
    return [...new Set(this.runsOf(workload).map(({ rate }) => rate))].sort((a, b) => a - b);
  }

  /** The highest rate that all policies have been through, else the highest of all; undefined where nothing was run. */
  topRate(workload: StudiedWorkload): number | undefined {
    const rates = this.rates(workload);
    const whole = (rate: number): boolean =>
      this.study.policies.every(({ name }) => this.runs(workload, rate, name).length > 0);
    return rates.findLast(whole) ?? rates.at(-1);
  }
}
