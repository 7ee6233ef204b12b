/** Someone who holds bytes of the budget. */
export interface BudgetHolder {
  /** Stop reading: the budget is spent. */
  pause(): void;
  resume(): void;
}

/**
 * The bytes that all buffered and replayed bodies of the process may hold together. When they are spent, everyone stops
 * reading except the oldest holder, who may go on to the end of its body: so the total is bounded by the limit plus one
 * body, and no set of half-read bodies can block each other for ever.
 */
export class ByteBudget {
  readonly limit: number;
  #used = 0;
  /** In order of first arrival; values are the bytes held. */
  readonly #holders = new Map<BudgetHolder, number>();
  readonly #paused = new Set<BudgetHolder>();

  /** @param limit bytes */
  constructor(limit: number) {
    this.limit = limit;
  }

  /** Bytes held now. */
  get used(): number {
    return this.#used;
  }

  /** How many holders are paused now. */
  get paused(): number {
    return this.#paused.size;
  }

  /** Accounts `bytes` that were already received, and pauses the holder when it must not read on. */
  add(holder: BudgetHolder, bytes: number): void {
    this.#used += bytes;
    this.#holders.set(holder, (this.#holders.get(holder) ?? 0) + bytes);
    if (this.#used > this.limit && !this.#isOldest(holder) && !this.#paused.has(holder)) {
      this.#paused.add(holder);
      holder.pause();
    }
  }

  /** Takes `bytes` only if they fit; never pauses. For buffers that can be given up instead. */
  tryAdd(holder: BudgetHolder, bytes: number): boolean {
    if (this.#used + bytes > this.limit) return false;
    this.#used += bytes;
    this.#holders.set(holder, (this.#holders.get(holder) ?? 0) + bytes);
    return true;
  }

  /** Gives back everything the holder has; doing so twice does nothing. */
  release(holder: BudgetHolder): void {
    const bytes = this.#holders.get(holder);
    if (bytes === undefined) return;
    this.#holders.delete(holder);
    this.#used -= bytes;
    // Its end may have arrived while it was paused: whatever it reads next must flow again.
    if (this.#paused.delete(holder)) holder.resume();
    if (this.#paused.size > 0) this.#resumeSome();
  }

  #isOldest(holder: BudgetHolder): boolean {
    for (const first of this.#holders.keys()) return first === holder;
    return false;
  }

  #resumeSome(): void {
    for (const holder of this.#paused) {
      if (this.#used > this.limit && !this.#isOldest(holder)) continue;
      this.#paused.delete(holder);
      holder.resume();
    }
  }
}
