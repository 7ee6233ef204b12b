import type { BudgetUnit } from "../../../base/plugin/gate.ts";

/** The figures behind N (async-processor 2.1). */
interface BudgetFigures {
  /** max_SYS in `unit`, > 0. */
  readonly maxSys: number;
  /** Dispatch budget D; values outside 0..1 are clamped. */
  readonly budget: number;
  /** Reserved baseline B, 0..1. */
  readonly baseline: number;
  readonly unit: BudgetUnit;
}

/**
 * Doubles lose up to this much where the exact product is whole: 50 x (0.95 - 0.05) gives 44.99999999999999. A plain floor is
 * wrong in 215 of 900 such cases on a grid of 1 % (async-processor 2.3).
 */
const SLACK = 1e-9;

/**
 * N = max_SYS x (D - B): the most that may run at the same time, never negative; whole for requests, real for tokens and bytes.
 * N is 0 when D <= B, and for any figure that is no number. Source: async-processor 2.2 and 2.3.
 */
export function amount({ maxSys, budget, baseline, unit }: BudgetFigures): number {
  const d = Math.min(1, Math.max(0, budget));
  // Written so that NaN is closed.
  if (!(d > baseline && maxSys > 0)) return 0;
  return rounded(maxSys * (d - baseline), unit);
}

/** `raw` as an amount of `unit`: requests are whole, and nothing is below 0. */
export function rounded(raw: number, unit: BudgetUnit): number {
  return Math.max(0, unit === "requests" ? Math.floor(raw + SLACK) : raw);
}

interface Fit {
  /** The free room, in the unit of `cost`. */
  readonly allowance: number;
  /** > 0. */
  readonly cost: number;
  /** The most that could ever be free: max_SYS x (1 - B). */
  readonly most: number;
  /** The gate is open at all: D > B. */
  readonly open: boolean;
  /** No work of Sluice runs against this capacity. */
  readonly idle: boolean;
}

/**
 * Whether one request may go. Two cases let a single request go through an open gate while nothing of Sluice runs: N is 0,
 * which would stall dispatching just above B, or the request could never fit (async-processor 2.3, rules 2 and 4).
 */
export function fits({ allowance, cost, most, open, idle }: Fit): boolean {
  if (cost <= allowance + SLACK) return true;
  return open && idle && (allowance < 1 || cost > most);
}

/** Shortest step in milliseconds: some sources have a new sample whenever they are asked. */
const SHORTEST_STEP = 900;

/**
 * Opens a closed gate again in steps: a quarter of what may run is let in until the next sample, then half, then all. So the
 * waiting messages do not all leave at once (async-processor 2.7). A start is no re-opening.
 */
export class Ramp {
  #state: "closed" | "opening" | "open" = "open";
  #part = 1;
  #steppedAt = 0;

  /** The part of the allowed work that is let in: above 0, at most 1; 0 while the gate is closed. */
  get part(): number {
    if (this.#state === "closed") return 0;
    return this.#state === "opening" ? this.#part : 1;
  }

  closed(): void {
    this.#state = "closed";
  }

  /** The gate is open. @param later the sample behind it is newer than the one before @param now monotonic milliseconds */
  open(later: boolean, now: number): void {
    if (this.#state === "closed") {
      this.#state = "opening";
      this.#part = 1 / 4;
      this.#steppedAt = now;
    } else if (this.#state === "opening" && later && now - this.#steppedAt >= SHORTEST_STEP) {
      this.#part *= 2;
      this.#steppedAt = now;
      if (this.#part >= 1) this.#state = "open";
    }
  }

  /** The most that may run now, of `target`. */
  cap(target: number): number {
    return this.#state === "opening" ? Math.max(1, target * this.#part) : target;
  }
}

/** Milliseconds of one step, and the number of kept steps: two minutes, twice the oldest sample that counts by default. */
const STEP = 10;
const STEPS = 12_000;

/**
 * How much work of Sluice ran at each time in the last two minutes. A sample of a metric is seconds old when it is read. The
 * work of now, compared with the work of then, says how far Sluice itself has moved the figure.
 */
export class RunningHistory {
  /** The work at the end of each step, a ring. */
  readonly #steps = new Float64Array(STEPS);
  #step = Number.NaN;
  #first = Number.NaN;
  #running = 0;

  /** @param now monotonic milliseconds @param running the work from now */
  record(now: number, running: number): void {
    this.#advance(now);
    this.#running = running;
    this.#steps[this.#step % STEPS] = running;
  }

  /**
   * The work that ran at `time`; 0 for forgotten times, which makes the estimate cautious.
   *
   * Within a step the order of events is unknown, so the smaller of the work at its begin and at its end counts. Otherwise work
   * that ended just before a sample would be given back twice, once by the sample and once as own work.
   * @param now monotonic milliseconds, as `time`
   */
  at(time: number, now: number): number {
    this.#advance(now);
    const step = Math.floor(time / STEP);
    return Math.min(this.#endOf(step - 1), this.#endOf(step));
  }

  #endOf(step: number): number {
    if (step >= this.#step) return this.#running;
    return step >= Math.max(this.#first, this.#step - STEPS + 1) ? this.#steps[step % STEPS]! : 0;
  }

  /** Fills the steps since the last call with the work that ran in them; steps older than the ring are forgotten. */
  #advance(now: number): void {
    const step = Math.floor(now / STEP);
    if (step === this.#step) return;
    if (!(step > this.#step && step - this.#step < STEPS)) {
      this.#first = step;
      this.#steps[step % STEPS] = this.#running;
    } else for (let i = this.#step + 1; i <= step; i++) this.#steps[i % STEPS] = this.#running;
    this.#step = step;
  }
}

/** The part of the workers that counts until a size is learned: as much as a gate that opens again lets in at first. */
const FIRST_PART = 1 / 4;
/** Own work below this part of the size does not make the size smaller: the load then comes from others. */
const TELLING_PART = 1 / 4;
/** A figure below this does not show the own work at all; a queue that is still empty is an example. */
const SHOWN_FROM = 0.05;
/** No trial takes place when the running work proves this part of the size. */
const WELL_KNOWN = 0.9;
/** Growth for each sample whose room is too small for one more request of the known size. */
const TRIAL = 1.25;

/** A new sample of a figure. */
interface SizeSample {
  /** The taken share, 0..1; 1 = all of it, or more. */
  readonly taken: number;
  /** The share at which the gate closes, 0..1. */
  readonly ceiling: number;
  /** The work of Sluice at the time of the sample. */
  readonly own: number;
  /** The most work of Sluice that could run. */
  readonly workers: number;
}

/**
 * The size of a capacity that no metric states, learned from its figure while a known amount of own work runs. When Sluice and
 * others take a share S, the capacity holds at least own / S. Where the figure rises in step with the work, this is never too
 * much. So the share stays below the ceiling, except for one request that is tried at a time.
 */
export class LearnedSize {
  #size: number | undefined;

  /** @returns in requests, at most `workers` */
  of(workers: number): number {
    return Math.min(workers, this.#size ?? workers * FIRST_PART);
  }

  learn({ taken, ceiling, own, workers }: SizeSample): void {
    if (own < 1) return;
    const size = this.of(workers);
    const least = taken < 1 ? own / taken : own;
    if (taken > ceiling) {
      if (own >= size * TELLING_PART) this.#size = Math.min(size, least);
    } else if (taken < SHOWN_FROM) this.#size = Math.max(size, 2 * own);
    else if (least > size) this.#size = least;
    // Others hold most of it: the own work proves too little, and one more request may well fit.
    else if (least < size * WELL_KNOWN && size * (ceiling - taken) < 1) this.#size = Math.min(workers, size * TRIAL);
  }
}
