import type { BudgetUnit } from "../../../base/plugin/gate.ts";

/** What N is computed from (async-processor 2.1). */
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
 * Doubles lose up to this much where the exact product is whole: 50 x (0.95 - 0.05) comes out as 44.99999999999999.
 * A plain floor is wrong in 215 of 900 such cases on a grid of 1 % (async-processor 2.3).
 */
const SLACK = 1e-9;

/**
 * N = max_SYS x (D - B): how much may run at the same time, never negative; whole for requests, real for tokens and bytes.
 * 0 when D <= B, and for anything that is no number. Source: async-processor 2.2 and 2.3.
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
  /** What is still free, in the unit of `cost`. */
  readonly allowance: number;
  /** > 0. */
  readonly cost: number;
  /** Most that could ever be free: max_SYS x (1 - B). */
  readonly most: number;
  /** The gate is open at all: D > B. */
  readonly open: boolean;
  /** Nothing of ours runs against this capacity. */
  readonly idle: boolean;
}

/**
 * Whether one request may go. When nothing of ours runs, an open gate lets one go alone where N comes out as 0, so that
 * dispatching does not stall just above B, and where it could never fit (async-processor 2.3, rules 2 and 4).
 */
export function fits({ allowance, cost, most, open, idle }: Fit): boolean {
  if (cost <= allowance + SLACK) return true;
  return open && idle && (allowance < 1 || cost > most);
}

/** Milliseconds that a step lasts at least: some sources have a new sample whenever they are asked. */
const SHORTEST_STEP = 900;

/**
 * Re-opening in steps: after the gate was closed a quarter of what may run is let in until the next sample, then half, then all,
 * so that not everything that has waited leaves at once (async-processor 2.7). Starting up is no re-opening.
 */
export class Ramp {
  #state: "closed" | "opening" | "open" = "open";
  #part = 1;
  #steppedAt = 0;

  /** Of what may run, the part that is let in: above 0, at most 1; 0 while the gate is closed. */
  get part(): number {
    if (this.#state === "closed") return 0;
    return this.#state === "opening" ? this.#part : 1;
  }

  closed(): void {
    this.#state = "closed";
  }

  /**
   * The gate is open.
   * @param later the sample that says so is newer than the one before
   * @param now monotonic milliseconds
   */
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

  /** At most this much may run now, of `target`. */
  cap(target: number): number {
    return this.#state === "opening" ? Math.max(1, target * this.#part) : target;
  }
}

/** Milliseconds of one step, and how many are kept: two minutes, twice the oldest sample that counts by default. */
const STEP = 10;
const STEPS = 12_000;

/**
 * How much of our own work ran at a time in the last two minutes. A sample of a metric is seconds old when it is read:
 * comparing what runs now with what ran then says how far the figure has moved by our own doing.
 */
export class RunningHistory {
  /** What ran at the end of each step, a ring. */
  readonly #steps = new Float64Array(STEPS);
  #step = Number.NaN;
  #first = Number.NaN;
  #running = 0;

  /** @param now monotonic milliseconds @param running from now on */
  record(now: number, running: number): void {
    this.#advance(now);
    this.#running = running;
    this.#steps[this.#step % STEPS] = running;
  }

  /**
   * What ran at `time`; 0 for times that are not remembered, which makes the estimate cautious.
   *
   * Within a step the order of events is not known: the smaller of what ran when it began and when it ended counts. Work that
   * ended just before a sample would otherwise be given back twice, once by the sample and once as our own.
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

  /** Fills the steps that went by with what ran in them; what nobody has asked about for so long is forgotten. */
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

/** Until anything is learned, this part of the workers counts: as much as a gate that opens again lets in at first. */
const FIRST_PART = 1 / 4;
/** Less of our own work than this part of the size does not make the size smaller: others are the cause then. */
const TELLING_PART = 1 / 4;
/** A figure below this does not show our work at all, as a queue that is still empty does not. */
const SHOWN_FROM = 0.05;
/** Where what runs proves so much of the size, nothing is tried. */
const WELL_KNOWN = 0.9;
/** Growth for each sample with room that is too small for one more request of the size that is known. */
const TRIAL = 1.25;

/** A new sample of a figure. */
interface SizeSample {
  /** The share that is taken, 0..1; 1 = all of it, or more. */
  readonly taken: number;
  /** The share from which on the gate is closed, 0..1. */
  readonly ceiling: number;
  /** What of ours ran at the time of the sample. */
  readonly own: number;
  /** The most of ours that could run. */
  readonly workers: number;
}

/**
 * How much a capacity holds that nobody states, learned from what its figure says while a known amount of our work runs: a share
 * S is taken, by us and by others, so the capacity holds at least own / S. Where the figure rises in step with the work, this
 * is never too much, and so the share stays below the ceiling, but for one request that is tried at a time.
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
    // Others hold most of it: what we run says too little, and one more may well fit.
    else if (least < size * WELL_KNOWN && size * (ceiling - taken) < 1) this.#size = Math.min(workers, size * TRIAL);
  }
}
