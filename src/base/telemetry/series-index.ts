type Level<C> = Map<string, Level<C> | C>;

/**
 * Finds a series by its label values: one map per label, nested. Against a single map keyed by a joined string this
 * builds no key on lookup, and no choice of separator can make two label sets collide.
 */
export class SeriesIndex<C> {
  readonly #depth: number;
  readonly #root: Level<C> = new Map();

  /** @param depth number of labels, at least 1 */
  constructor(depth: number) {
    this.#depth = depth;
  }

  get(values: readonly string[]): C | undefined {
    let level: Level<C> | undefined = this.#root;
    const last = this.#depth - 1;
    for (let i = 0; i < last; i++) {
      level = level.get(values[i]!) as Level<C> | undefined;
      if (level === undefined) return undefined;
    }
    return level.get(values[last]!) as C | undefined;
  }

  put(values: readonly string[], series: C): void {
    let level = this.#root;
    const last = this.#depth - 1;
    for (let i = 0; i < last; i++) {
      let next = level.get(values[i]!) as Level<C> | undefined;
      if (next === undefined) {
        next = new Map();
        level.set(values[i]!, next);
      }
      level = next;
    }
    level.set(values[last]!, series);
  }

  /** Forgets one label set, and every level that becomes empty by it. */
  delete(values: readonly string[]): void {
    this.#deleteBelow(this.#root, values, 0);
  }

  clear(): void {
    this.#root.clear();
  }

  #deleteBelow(level: Level<C>, values: readonly string[], at: number): void {
    const value = values[at]!;
    if (at < this.#depth - 1) {
      const next = level.get(value) as Level<C> | undefined;
      if (next === undefined) return;
      this.#deleteBelow(next, values, at + 1);
      if (next.size > 0) return;
    }
    level.delete(value);
  }
}
