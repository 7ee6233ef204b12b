import type { Clock } from "../../base/clock/clock.ts";

/** Milliseconds of events between two pauses. */
const SLICE_MS = 1;
/** Milliseconds of a pause, at least. */
const PAUSE_MS = 1;

/**
 * The share of the thread that events may take: after each slice of a millisecond, decisions have the thread for at least as long.
 * So a flood of events takes half of a core at most, and what comes above that waits in the sockets, which drop it in the end.
 */
export class IngestBudget {
  readonly #clock: Clock;
  #sliceStart = Number.NEGATIVE_INFINITY;
  #pause: Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether work that began at `started` has taken a slice. */
  isSpent(started: number): boolean {
    return this.#clock.now() - started >= SLICE_MS;
  }

  /**
   * Counts time that a message took.
   * @param started when its work began
   * @returns a promise that work on further messages should wait for; undefined = go on
   */
  spent(started: number): Promise<void> | undefined {
    if (this.#pause !== undefined) return this.#pause;
    const now = this.#clock.now();
    // A slice ends by itself where the thread did something else in between.
    if (started - this.#sliceStart > SLICE_MS) this.#sliceStart = started;
    const used = now - this.#sliceStart;
    if (used < SLICE_MS) return undefined;
    this.#pause = new Promise((resolve) => {
      this.#clock.after(
        Math.max(PAUSE_MS, used),
        () => {
          this.#pause = undefined;
          this.#sliceStart = this.#clock.now();
          resolve();
        },
        true,
      );
    });
    return this.#pause;
  }
}
