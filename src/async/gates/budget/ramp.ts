/** Milliseconds that a step lasts at least: some sources have a new sample whenever they are asked. */
const SHORTEST_STEP = 900;

/**
 * Re-opening in steps: after the gate was closed a quarter of what may run is let in until the next sample, then half, then all,
 * so that not everything that has waited leaves at once (async-processor 2.7). Starting up is no re-opening.
 */
export class Ramp {
  #state: "closed" | "opening" | "open" = "open";
  #part = 1;
  #steppedAt = 0;

  /** Of what may run, the part that is let in: above 0, at most 1; 0 while the gate is closed. */
  get part(): number {
    if (this.#state === "closed") return 0;
    return this.#state === "opening" ? this.#part : 1;
  }

  closed(): void {
    this.#state = "closed";
  }

  /**
   * The gate is open.
   * @param later the sample that says so is newer than the one before
   * @param now monotonic milliseconds
   */
  open(later: boolean, now: number): void {
    if (this.#state === "closed") {
      this.#state = "opening";
      this.#part = 1 / 4;
      this.#steppedAt = now;
    } else if (this.#state === "opening" && later && now - this.#steppedAt >= SHORTEST_STEP) {
      this.#part *= 2;
      this.#steppedAt = now;
      if (this.#part >= 1) this.#state = "open";
    }
  }

  /** At most this much may run now, of `target`. */
  cap(target: number): number {
    return this.#state === "opening" ? Math.max(1, target * this.#part) : target;
  }
}
