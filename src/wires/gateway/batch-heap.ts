import type { Clock } from "../../base/clock/clock.ts";

/**
 * Percent of the live data by which the heaps grow while lines come, and milliseconds after the last line until they grow as usual. Each
 * line leaves old garbage in two heaps: that of the gateway, and that of the thread of the batches.
 */
const GROWTH = 50;
const AFTER = 10_000;

/** How the heaps of a process can be kept small (`base/process/garbage.ts`). */
export interface HeapControls {
  /** Percent by which the heaps grow without batches. */
  readonly growth: number;
  growBy(percent: number): void;
  /** Collects what the start left. */
  collect(): void;
  /** Stops the growth of the young generation while it has its size. */
  limitYoung(): void;
}

/** Keeps the heaps of a gateway small while it works on batches: a process with two heaps has twice the garbage. */
export class BatchHeap {
  readonly #controls: HeapControls;
  readonly #clock: Clock;
  /** Monotonic milliseconds. */
  #lineAt = Number.NEGATIVE_INFINITY;
  #growth: number;
  #hasBegun = false;

  constructor(controls: HeapControls, clock: Clock) {
    this.#controls = controls;
    this.#clock = clock;
    this.#growth = controls.growth;
  }

  /**
   * Ends the start. Without a collection, V8 would collect for the first time when the heap has several times the size of its live
   * data: in the middle of the first batch. A young generation that was limited before would stay as small as the collection leaves it.
   */
  begin(): void {
    const { growth, growBy, collect } = this.#controls;
    growBy(Math.min(GROWTH, growth));
    collect();
    growBy(growth);
    this.#hasBegun = true;
  }

  /** A line has come. */
  line(): void {
    this.#lineAt = this.#clock.now();
  }

  /** Sets what has changed since the start; called several times a second. */
  look(): void {
    const { growth, growBy, limitYoung } = this.#controls;
    if (!this.#hasBegun) return;
    limitYoung();
    const wanted = this.#clock.now() - this.#lineAt < AFTER ? Math.min(GROWTH, growth) : growth;
    if (wanted === this.#growth) return;
    this.#growth = wanted;
    growBy(wanted);
  }
}
