/** A message in the memory store, wherever it stands. */
export interface MemoryEntry {
  readonly queueName: string;
  readonly id: string;
  /** Unix seconds; NaN when the entry cannot be read. */
  readonly deadline: number;
  /** Of its arrival; decides among equal scores. */
  readonly order: number;
  /** Unix milliseconds. */
  readonly publishedAt: number;
  /** The envelope. */
  text: string;
  /** Its place in the queue. */
  score: number;
  /** When a parked entry is due, Unix seconds. */
  due: number;
  /** How often it was claimed. */
  deliveries: number;
  cancelled: boolean;
}

/** Entries ordered by a number, ties by arrival. */
export class EntryList {
  readonly #entries: MemoryEntry[] = [];
  readonly #places: number[] = [];

  get size(): number {
    return this.#entries.length;
  }

  /** The number of the first; undefined when empty. */
  get first(): number | undefined {
    return this.#places[0];
  }

  add(entry: MemoryEntry, place: number): void {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.#places[middle]!;
      if (other < place || (other === place && this.#entries[middle]!.order < entry.order)) low = middle + 1;
      else high = middle;
    }
    this.#entries.splice(low, 0, entry);
    this.#places.splice(low, 0, place);
  }

  /**
   * Takes out entries from the front on.
   * @param decide per entry: "take" it, "pass" over it, or "stop" before it
   */
  take(decide: (entry: MemoryEntry) => "take" | "pass" | "stop"): MemoryEntry[] {
    const taken: MemoryEntry[] = [];
    let kept = 0;
    let at = 0;
    for (; at < this.#entries.length; at++) {
      const entry = this.#entries[at]!;
      const decision = decide(entry);
      if (decision === "stop") break;
      if (decision === "take") {
        taken.push(entry);
        continue;
      }
      this.#entries[kept] = entry;
      this.#places[kept++] = this.#places[at]!;
    }
    if (taken.length > 0) {
      this.#entries.splice(kept, at - kept);
      this.#places.splice(kept, at - kept);
    }
    return taken;
  }

  /** The first ones, which stay. */
  peek(count: number): readonly MemoryEntry[] {
    return this.#entries.slice(0, count);
  }
}
