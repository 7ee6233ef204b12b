import type { Clock } from "../../base/clock/clock.ts";

/**
 * The broker's wall clock, carried on by our monotonic one: deadlines and due times mean the same to every replica, and a
 * clock that jumps here expires nothing (H-45).
 */
export class BrokerTime {
  readonly #clock: Clock;
  #offset: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#offset = clock.wall() - clock.now();
  }

  /**
   * The broker has looked at its clock some time between the question and now: within that what is known stands, so that an
   * answer that comes seconds late turns no time back.
   * @param time Unix milliseconds that the broker said
   * @param askedAt monotonic milliseconds
   */
  heard(time: number, askedAt: number): void {
    if (!Number.isFinite(time)) return;
    const now = this.#clock.now();
    this.#offset = Math.min(time - askedAt, Math.max(time - now, this.#offset));
  }

  /** Unix milliseconds. */
  now(): number {
    return this.#clock.now() + this.#offset;
  }
}
