/**
 * Re-opening in steps: after the gate was closed a quarter of what may run is let in until the next sample, then half, then all,
 * so that not everything that has waited leaves at once (async-processor 2.7). Starting up is no re-opening.
 */
export class Ramp {
  #state: "closed" | "opening" | "open" = "open";
  #part = 1;

  /** Of what may run, the part that is let in: above 0, at most 1; 0 while the gate is closed. */
  get part(): number {
    if (this.#state === "closed") return 0;
    return this.#state === "opening" ? this.#part : 1;
  }

  closed(): void {
    this.#state = "closed";
  }

  /** The gate is open. @param later the sample that says so is newer than the one before */
  open(later: boolean): void {
    if (this.#state === "closed") {
      this.#state = "opening";
      this.#part = 1 / 4;
    } else if (this.#state === "opening" && later) {
      this.#part *= 2;
      if (this.#part >= 1) this.#state = "open";
    }
  }

  /** At most this much may run now, of `target`. */
  cap(target: number): number {
    return this.#state === "opening" ? Math.max(1, target * this.#part) : target;
  }
}
