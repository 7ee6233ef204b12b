interface Entry<V> {
  readonly value: V;
  /** Monotonic milliseconds. */
  readonly until: number;
}

/** Values that count for a time; beyond so many keys those go that were used longest ago. */
export class ExpiringMap<V> {
  readonly #maxKeys: number;
  /** In the order of their last use. */
  readonly #entries = new Map<string, Entry<V>>();

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Undefined for what is not kept or has run out. @param now monotonic milliseconds */
  get(key: string, now: number): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    if (now >= entry.until) return undefined;
    this.#entries.set(key, entry);
    return entry.value;
  }

  set(key: string, value: V, until: number): void {
    this.#entries.delete(key);
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size < this.#maxKeys) break;
      this.#entries.delete(oldest);
    }
    this.#entries.set(key, { value, until });
  }
}
