import type { Clock } from "../../base/clock/clock.ts";

/** Milliseconds. What differs by less was long on its way, or belongs to a clock that is slewed. */
const LEAST_JUMP = 1000;

/** Readings of a clock, Unix milliseconds. */
export interface Readings {
  readonly earliest: number;
  readonly latest: number;
}

/**
 * Tells a store's clock that was set from time that has passed, by comparison with our monotonic clock.
 *
 * Leases end by the store's clock. When that clock is set forward, all of them have run out though every holder is alive;
 * when it is set back, those of dead holders last too long. So whoever looks for leases that have run out asks here first:
 * after a jump every lease begins anew. That delays a message of a dead holder by the life of one lease, and takes no
 * message from a live one.
 *
 * A process that starts after a jump cannot see it. Those that ran before look as often as it does, and began earlier.
 */
export class StoreClock {
  readonly #clock: Clock;
  readonly #tolerance: number;
  /** The reading that the next ones are compared with. */
  #last: { readonly time: number; readonly at: number } | undefined;

  /** @param claimTtl milliseconds: a quarter of it does not matter, because leases are renewed long before their end */
  constructor(clock: Clock, claimTtl: number) {
    this.#clock = clock;
    this.#tolerance = Math.max(LEAST_JUMP, claimTtl / 4);
  }

  /** What the store's clock may show now if nobody has set it. */
  get expected(): Readings {
    if (this.#last === undefined) return { earliest: 0, latest: Number.MAX_SAFE_INTEGER };
    const time = this.#last.time + this.#clock.now() - this.#last.at;
    return { earliest: Math.floor(time - this.#tolerance), latest: Math.ceil(time + this.#tolerance) };
  }

  /** The store's clock said `time` when ours said `at` (monotonic); leases are right by this reading. */
  heard(time: number, at: number): void {
    this.#last = { time, at };
  }

  /** As `heard`, if nothing was heard before. */
  heardFirst(time: number, at: number): void {
    this.#last ??= { time, at };
  }
}

/** By how much a clock was set that shows `time`, milliseconds; 0 = it was not. @param expected what it might show */
export function jumpOf(time: number, { earliest, latest }: Readings): number {
  return time >= earliest && time <= latest ? 0 : time - (earliest + latest) / 2;
}

/** What the log says of a jump. @param ms of the jump */
export function jumpMessage(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1000);
  return `the clock of the queues was set ${ms > 0 ? "forward" : "back"} by ${seconds} s: every lease starts again, and each message stays with its dispatcher`;
}
