/** First number of slots; doubled whenever they run out. */
const FIRST_SLOTS = 8;

/**
 * The numbers of one metric family: one growing `Float64Array` cut into slots of `stride` cells. Slot 0 belongs to no
 * series: children of removed series are pointed at it, so that a caller still holding one changes nothing visible.
 */
export class Cells {
  /** Replaced when it grows: read it afresh for every access. */
  values: Float64Array;
  readonly stride: number;
  readonly #free: number[] = [];
  #next: number;

  /** @param stride cells per series, at least 1 */
  constructor(stride: number) {
    this.stride = stride;
    this.values = new Float64Array(FIRST_SLOTS * stride);
    this.#next = stride;
  }

  /** A zeroed slot; returns the index of its first cell. */
  take(): number {
    const reused = this.#free.pop();
    if (reused !== undefined) {
      this.values.fill(0, reused, reused + this.stride);
      return reused;
    }
    if (this.#next === this.values.length) {
      const grown = new Float64Array(this.values.length * 2);
      grown.set(this.values);
      this.values = grown;
    }
    const at = this.#next;
    this.#next += this.stride;
    return at;
  }

  /** Gives a slot back for reuse. */
  release(at: number): void {
    this.#free.push(at);
  }
}
