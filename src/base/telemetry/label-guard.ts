import { OTHER } from "./metric-spec.ts";

/** Longest label value taken from a client, in UTF-16 units: the longest name Kubernetes allows is 253. */
const MAX_LENGTH = 256;

/**
 * Keeps label values that clients choose from filling the process: the first `max` distinct values pass for the life of
 * the guard, later ones become `other` (scheduling 8.1). So do values longer than 256 and those with half a surrogate
 * pair, which would look like another value once they are UTF-8. "" passes and does not count, nor do pinned values.
 */
export class LabelGuard {
  readonly #max: number;
  readonly #pinned: (value: string) => boolean;
  readonly #seen = new Set<string>();

  /**
   * @param max distinct values, at least 0
   * @param pinned whether the operator named a value: those always pass. How many there are is for its owner to bound
   */
  constructor(max: number, pinned: (value: string) => boolean = () => false) {
    this.#max = max;
    this.#pinned = pinned;
  }

  /** The label value to use for `value`. */
  admit(value: string): string {
    if (value === "" || this.#seen.has(value)) return value;
    if (value.length > MAX_LENGTH || !value.isWellFormed()) return OTHER;
    if (this.#pinned(value)) return value;
    if (this.#seen.size >= this.#max) return OTHER;
    this.#seen.add(value);
    return value;
  }

  /** Whether `value` passes whatever else there is. */
  pins(value: string): boolean {
    return this.#pinned(value);
  }
}
