/** Milliseconds of one step, and how many are kept: two minutes, twice the oldest sample that counts by default. */
const STEP = 10;
const STEPS = 12_000;

/**
 * How much of our own work ran at a time in the last two minutes. A sample of a metric is seconds old when it is read:
 * comparing what runs now with what ran then says how far the figure has moved by our own doing.
 */
export class RunningHistory {
  /** What ran at the end of each step, a ring. */
  readonly #steps = new Float64Array(STEPS);
  #step = Number.NaN;
  #first = Number.NaN;
  #running = 0;

  /** @param now monotonic milliseconds @param running from now on */
  record(now: number, running: number): void {
    this.#advance(now);
    this.#running = running;
    this.#steps[this.#step % STEPS] = running;
  }

  /**
   * What ran at `time`; 0 for times that are not remembered, which makes the estimate cautious.
   *
   * Within a step the order of events is not known: the smaller of what ran when it began and when it ended counts. Work that
   * ended just before a sample would otherwise be given back twice, once by the sample and once as our own.
   * @param now monotonic milliseconds, as `time`
   */
  at(time: number, now: number): number {
    this.#advance(now);
    const step = Math.floor(time / STEP);
    return Math.min(this.#endOf(step - 1), this.#endOf(step));
  }

  #endOf(step: number): number {
    if (step >= this.#step) return this.#running;
    return step >= Math.max(this.#first, this.#step - STEPS + 1) ? this.#steps[step % STEPS]! : 0;
  }

  /** Fills the steps that went by with what ran in them; what nobody has asked about for so long is forgotten. */
  #advance(now: number): void {
    const step = Math.floor(now / STEP);
    if (step === this.#step) return;
    if (!(step > this.#step && step - this.#step < STEPS)) {
      this.#first = step;
      this.#steps[step % STEPS] = this.#running;
    } else for (let i = this.#step + 1; i <= step; i++) this.#steps[i % STEPS] = this.#running;
    this.#step = step;
  }
}
