import type { Clock } from "../../base/clock/clock.ts";

/** Milliseconds. A smaller difference comes from a slow answer, or from a clock that is slewed. */
const LEAST_JUMP = 1000;

/** Readings of a clock, Unix milliseconds. */
export interface Readings {
  readonly earliest: number;
  readonly latest: number;
}

/**
 * Tells apart a store's clock that was set and time that has passed, by comparison with the local monotonic clock.
 *
 * Leases end by the store's clock. When that clock is set forward, all leases have run out though every holder is alive; when
 * it is set back, the leases of dead holders last too long. So each search for leases that have run out asks here first: after
 * a jump every lease begins again. That delays a message of a dead holder by the length of one lease, and takes no message from
 * a live holder.
 *
 * A process that starts after a jump cannot see it. Processes that ran before search as often as it does, and began earlier.
 */
export class StoreClock {
  readonly #clock: Clock;
  readonly #tolerance: number;
  /** The reading that later readings are compared with. */
  #last: { readonly time: number; readonly at: number } | undefined;

  /**
   * @param claimTtl milliseconds: a jump below a quarter of it is harmless, because leases are renewed long before their end
   */
  constructor(clock: Clock, claimTtl: number) {
    this.#clock = clock;
    this.#tolerance = Math.max(LEAST_JUMP, claimTtl / 4);
  }

  /** The times that the store's clock may show now if it was not set. */
  get expected(): Readings {
    if (this.#last === undefined) return { earliest: 0, latest: Number.MAX_SAFE_INTEGER };
    const time = this.#last.time + this.#clock.now() - this.#last.at;
    return { earliest: Math.floor(time - this.#tolerance), latest: Math.ceil(time + this.#tolerance) };
  }

  /** The store's clock was at `time` when the local clock was at `at` (monotonic); leases are right by this reading. */
  heard(time: number, at: number): void {
    this.#last = { time, at };
  }

  /** As `heard`, but only for the first reading. */
  heardFirst(time: number, at: number): void {
    this.#last ??= { time, at };
  }
}

/** Milliseconds by which a clock that shows `time` was set; 0 = it was not. @param expected the times that it may show */
export function jumpOf(time: number, { earliest, latest }: Readings): number {
  return time >= earliest && time <= latest ? 0 : time - (earliest + latest) / 2;
}

/** The log text about a jump. @param ms of the jump */
export function jumpMessage(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1000);
  return `the clock of the queue store was set ${ms > 0 ? "forward" : "back"} by ${seconds} s: every lease starts again, and each message stays with its dispatcher`;
}
