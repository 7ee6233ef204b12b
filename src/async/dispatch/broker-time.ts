import type { Clock } from "../../base/clock/clock.ts";

/**
 * The broker's wall clock, continued by the local monotonic clock. Deadlines and due times mean the same to every replica, and
 * a local clock that jumps expires nothing (H-45).
 */
export class BrokerTime {
  readonly #clock: Clock;
  #offset: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#offset = clock.wall() - clock.now();
  }

  /**
   * Takes a reading. The broker read its clock at some moment between the question and now. The known time stays if it fits
   * into that span, so that an answer that is seconds late turns no time back.
   * @param time the broker's time, Unix milliseconds
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
