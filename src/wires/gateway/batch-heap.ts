import type { Clock } from "../../base/clock/clock.ts";

/**
 * Percent of the live data by which the heaps grow while lines come, and milliseconds after the last line until they grow as ever. A
 * line leaves garbage in the old parts of two heaps: that of the gateway, and that of the thread of the batches.
 */
const GROWTH = 50;
const AFTER = 10_000;

/** How the heaps of a process can be kept small (`base/process/garbage.ts`). */
export interface HeapControls {
  /** Percent by which the heaps grow without batches. */
  readonly growth: number;
  growBy(percent: number): void;
  /** Stops the growth of the young generation. @returns whether there is nothing more to do */
  limitYoung(): boolean;
}

/** Keeps the heaps of a gateway small while it works on batches: a process with two heaps has twice the garbage. */
export class BatchHeap {
  readonly #controls: HeapControls;
  readonly #clock: Clock;
  /** Monotonic milliseconds. */
  #lineAt = Number.NEGATIVE_INFINITY;
  #growth: number;
  #isYoungLimited = false;

  constructor(controls: HeapControls, clock: Clock) {
    this.#controls = controls;
    this.#clock = clock;
    this.#growth = controls.growth;
  }

  /** A line has come. */
  line(): void {
    this.#lineAt = this.#clock.now();
  }

  /** Sets what has changed; called several times a second. */
  look(): void {
    const { growth, growBy, limitYoung } = this.#controls;
    this.#isYoungLimited ||= limitYoung();
    const wanted = this.#clock.now() - this.#lineAt < AFTER ? Math.min(GROWTH, growth) : growth;
    if (wanted === this.#growth) return;
    this.#growth = wanted;
    growBy(wanted);
  }
}
