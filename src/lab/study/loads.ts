import type { Clock } from "../../base/clock/clock.ts";
import type { ModelEngine } from "../simulator/model-engine.ts";
import type { Sample } from "./result.ts";

const INTERVAL = 50;
const SAMPLE_EVERY = 1000;
const MAX_SAMPLES = 600;

/** Looks at the engines' loads, 20 times a second of virtual time. */
export class Loads {
  readonly #engines: readonly ModelEngine[];
  readonly #clock: Clock;
  readonly #sums: number[];
  readonly #keep: boolean;
  #samples: Sample[] = [];
  #sampleEvery = SAMPLE_EVERY;
  #looks = 0;
  #max = 0;
  #total = 0;

  /** @param keep whether there are samples for plots */
  constructor(engines: readonly ModelEngine[], clock: Clock, keep: boolean) {
    this.#engines = engines;
    this.#clock = clock;
    this.#sums = engines.map(() => 0);
    this.#keep = keep;
  }

  /** Looks from now on for as long as `open` says; what is seen while `counted` says counts for the spread. */
  watch(open: () => boolean, counted: () => boolean): void {
    this.#look(counted());
    if (open()) this.#clock.after(INTERVAL, () => this.watch(open, counted));
  }

  /** Requests at the busiest server by those at the mean one, each added up over time; 1 = even, and of nothing. */
  get maxToMean(): number {
    return this.#total === 0 ? 1 : (this.#max * this.#engines.length) / this.#total;
  }

  /** Requests at each server at a time, on average. */
  get means(): readonly number[] {
    return this.#sums.map((sum) => (this.#looks === 0 ? 0 : sum / this.#looks));
  }

  get samples(): readonly Sample[] {
    return this.#samples;
  }

  #look(counted: boolean): void {
    const loads = this.#engines.map(({ running, waiting }) => running + waiting);
    if (this.#keep && this.#clock.now() >= this.#samples.length * this.#sampleEvery) this.#sample(loads);
    if (!counted) return;
    this.#looks++;
    loads.forEach((load, i) => {
      this.#sums[i]! += load;
      this.#total += load;
    });
    this.#max += Math.max(...loads);
  }

  /** Half of the samples go, and half as many come, whenever there are too many. */
  #sample(loads: readonly number[]): void {
    this.#samples.push({ at: this.#clock.now() / 1000, loads });
    if (this.#samples.length <= MAX_SAMPLES) return;
    this.#samples = this.#samples.filter((_, i) => i % 2 === 0);
    this.#sampleEvery *= 2;
  }
}
