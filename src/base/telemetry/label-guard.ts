import { OTHER } from "./metric-spec.ts";

/** Longest label value taken from a client, in UTF-16 units: the longest name Kubernetes allows is 253. */
const MAX_LENGTH = 256;

/**
 * Keeps label values that clients choose from filling the process. The first `max` distinct values pass for the life of the
 * guard, later ones become `other` (scheduling 8.1). Values longer than 256 also become `other`. So do values with half a
 * surrogate pair, which would look like another value in UTF-8. "" and pinned values pass and do not count.
 */
export class LabelGuard {
  readonly #max: number;
  readonly #pinned: (value: string) => boolean;
  readonly #seen = new Set<string>();

  /**
   * @param max distinct values, at least 0
   * @param pinned whether the operator named a value: such a value always passes. The caller bounds their number
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

  /** Whether the operator named `value`, so that it always passes. */
  pins(value: string): boolean {
    return this.#pinned(value);
  }
}
