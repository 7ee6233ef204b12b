import type { Clock } from "../../base/clock/clock.ts";

/** Someone who must be told when a moment has passed. */
export interface Timed {
  /** Monotonic milliseconds; Infinity = none. Set freely at any time: it is only read by the sweep. */
  readonly deadline: number;
  /** The deadline has passed. Called at every sweep until it is moved or the member leaves. */
  expired(now: number): void;
}

/**
 * The deadlines of everything in flight, checked by one timer for all: moving a deadline is a store, which a streamed
 * answer does for every chunk. A deadline is noticed up to one interval late.
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

/** How often to sweep so that the shortest of `durations` (0 = off) is at most a quarter late: 5 ms to 1 s. */
export function sweepInterval(durations: readonly number[]): number {
  const shortest = Math.min(...durations.filter((ms) => ms > 0));
  return Math.max(5, Math.min(1000, shortest / 4));
}
