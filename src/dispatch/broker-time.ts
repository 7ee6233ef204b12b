import type { Clock } from "../clock/clock.ts";

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

  /** @param time Unix milliseconds that the broker just said */
  heard(time: number): void {
    if (!Number.isFinite(time)) return;
    this.#offset = time - this.#clock.now();
  }

  /** Unix milliseconds. */
  now(): number {
    return this.#clock.now() + this.#offset;
  }
}
