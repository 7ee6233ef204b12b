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
export interface SizeSample {
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
