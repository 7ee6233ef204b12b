import type { Clock } from "../../base/clock/clock.ts";

/** An object with a deadline, called after the deadline. */
export interface Timed {
  /** Monotonic milliseconds; Infinity = none. Its owner may change it at any time: only the sweep reads it. */
  readonly deadline: number;
  /** The deadline has passed. Called at every sweep until the deadline moves or the member leaves. */
  expired(now: number): void;
}

/**
 * The deadlines of everything in flight, checked by one timer for all. A streamed answer moves its deadline with every chunk,
 * which is one store. A sweep notices a deadline up to one interval late.
 */
export class Deadlines {
  readonly #clock: Clock;
  readonly #interval: number;
  readonly #members = new Set<Timed>();
  #armed = false;

  /** @param interval milliseconds between two sweeps */
  constructor(clock: Clock, interval: number) {
    this.#clock = clock;
    this.#interval = interval;
  }

  get size(): number {
    return this.#members.size;
  }

  add(member: Timed): void {
    this.#members.add(member);
    if (!this.#armed) this.#arm();
  }

  delete(member: Timed): void {
    this.#members.delete(member);
  }

  #arm(): void {
    this.#armed = true;
    this.#clock.after(this.#interval, this.#sweep, true);
  }

  readonly #sweep = (): void => {
    this.#armed = false;
    const now = this.#clock.now();
    for (const member of this.#members) if (member.deadline <= now) member.expired(now);
    if (this.#members.size > 0) this.#arm();
  };
}

/** The sweep interval in milliseconds, 5 ms to 1 s: the shortest of `durations` (0 = off) is then at most a quarter late. */
export function sweepInterval(durations: readonly number[]): number {
  const shortest = Math.min(...durations.filter((ms) => ms > 0));
  return Math.max(5, Math.min(1000, shortest / 4));
}
