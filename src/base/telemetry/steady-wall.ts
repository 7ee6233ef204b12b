import type { Clock } from "../clock/clock.ts";

/** Milliseconds by which it may differ from the wall clock. */
const MOST_APART = 2000;

/** Wall-clock time that never falls, also when the wall clock does: monotonic time from the wall-clock time of the start. */
export class SteadyWall {
  readonly #clock: Clock;
  /** Wall-clock less monotonic milliseconds. */
  #offset: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#offset = clock.wall() - clock.now();
  }

  /** The present second in Unix seconds. */
  second(): number {
    return this.secondOf(this.#clock.now());
  }

  /** The Unix second of monotonic milliseconds. */
  secondOf(monotonic: number): number {
    return Math.floor(this.of(monotonic) / 1000);
  }

  /** The Unix milliseconds of monotonic ones. */
  of(monotonic: number): number {
    return monotonic + this.#offset;
  }

  /** Follows a wall clock that has jumped ahead, for example while the machine slept. Call it once a second. */
  align(): void {
    const ahead = this.#clock.wall() - this.of(this.#clock.now());
    if (ahead > MOST_APART) this.#offset += ahead;
  }
}
