import type { Random } from "../../base/clock/random.ts";

/** How long to wait after failures: uniformly random below a bound that doubles with each (full jitter). */
export class Backoff {
  readonly #random: Random;
  readonly #first: number;
  readonly #longest: number;
  #bound: number;

  /** @param first milliseconds, the bound after one failure @param longest milliseconds, the highest bound */
  constructor(random: Random, first: number, longest: number) {
    this.#random = random;
    this.#first = first;
    this.#longest = longest;
    this.#bound = first;
  }

  /** Milliseconds to wait after one more failure. */
  next(): number {
    const wait = this.#random.next() * this.#bound;
    this.#bound = Math.min(this.#longest, this.#bound * 2);
    return wait;
  }

  reset(): void {
    this.#bound = this.#first;
  }
}
