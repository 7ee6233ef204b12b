/** What was shown so far of something that may be replaced, by name of the figure: counters get the difference. */
export class ShownFigures {
  readonly #figures = new Map<string, number>();

  /** @returns by how much a figure has grown since the last call */
  more(name: string, value: number): number {
    const before = this.#figures.get(name) ?? 0;
    this.#figures.set(name, value);
    return value - before;
  }
}
