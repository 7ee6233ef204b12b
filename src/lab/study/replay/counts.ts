import type { Counted } from "./replay-result.ts";

/** How often what occurred, for no more than so many different things; the rest is counted together. */
export class Counts {
  readonly #most: number;
  readonly #counts = new Map<string, number>();
  #others = 0;

  /** @param most different things, >= 1 */
  constructor(most: number) {
    this.#most = most;
  }

  /** Different things, at most as many as are told apart. */
  get size(): number {
    return this.#counts.size;
  }

  add(what: string, count = 1): void {
    const before = this.#counts.get(what);
    if (before === undefined && this.#counts.size >= this.#most) this.#others += count;
    else this.#counts.set(what, (before ?? 0) + count);
  }

  /** The most frequent first. @param others how those are called that were not told apart */
  list(others = "others"): readonly Counted[] {
    const counted = [...this.#counts].map(([what, count]) => ({ what, count }));
    counted.sort((a, b) => b.count - a.count || (a.what < b.what ? -1 : 1));
    return this.#others === 0 ? counted : [...counted, { what: others, count: this.#others }];
  }
}
