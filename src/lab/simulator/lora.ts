const NO_ADAPTERS: ReadonlySet<string> = new Set();

/**
 * The LoRA adapters of the running batch: at most `maxLoras` distinct ones at a time. A sequence without an adapter needs no
 * slot. The maps have an entry for each adapter of a running or waiting sequence, so the number of sequences bounds them.
 */
export class LoraSlots {
  /** Distinct adapters that fit one batch. */
  readonly maxLoras: number;
  readonly #running = new Map<string, number>();
  readonly #waiting = new Map<string, number>();
  #runningNames: ReadonlySet<string> | undefined = NO_ADAPTERS;
  #waitingNames: ReadonlySet<string> | undefined = NO_ADAPTERS;

  /** @param maxLoras >= 1 */
  constructor(maxLoras: number) {
    this.maxLoras = maxLoras;
  }

  /** Whether a sequence with this adapter could start now. */
  fits(adapter: string | undefined): boolean {
    return adapter === undefined || this.#running.size < this.maxLoras || this.#running.has(adapter);
  }

  /** Whether a running sequence uses this adapter. */
  runs(adapter: string): boolean {
    return this.#running.has(adapter);
  }

  /** Whether all slots are in use: then a later sequence of the queue may start before its head. */
  get full(): boolean {
    return this.#running.size >= this.maxLoras;
  }

  /** Counts a sequence into (`by` = 1) or out of (-1) the running batch. */
  countRunning(adapter: string | undefined, by: 1 | -1): void {
    if (adapter !== undefined && count(this.#running, adapter, by)) this.#runningNames = undefined;
  }

  /** Counts a sequence into (`by` = 1) or out of (-1) the queue. */
  countWaiting(adapter: string | undefined, by: 1 | -1): void {
    if (adapter !== undefined && count(this.#waiting, adapter, by)) this.#waitingNames = undefined;
  }

  /** Adapters in the running batch. A returned set never changes. */
  get running(): ReadonlySet<string> {
    this.#runningNames ??= new Set(this.#running.keys());
    return this.#runningNames;
  }

  /** Adapters of queued sequences. A returned set never changes. */
  get waiting(): ReadonlySet<string> {
    this.#waitingNames ??= new Set(this.#waiting.keys());
    return this.#waitingNames;
  }
}

/** Returns whether the set of keys changed. */
function count(counts: Map<string, number>, adapter: string, by: number): boolean {
  const before = counts.get(adapter) ?? 0;
  if (before + by === 0) {
    counts.delete(adapter);
    return true;
  }
  counts.set(adapter, before + by);
  return before === 0;
}

/**
 * The LoRA adapters in the memory of an engine: as many as fit one batch. An adapter stays after its last sequence until
 * another adapter needs its place. Then the least recently used one is unloaded, as in vLLM.
 */
export class ResidentAdapters {
  readonly capacity: number;
  /** The least recently used adapter comes first. */
  readonly #names = new Set<string>();

  /** @param capacity adapters, >= 1 */
  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** Loaded adapters, the least recently used one first. */
  get names(): readonly string[] {
    return [...this.#names];
  }

  /**
   * Starts a sequence.
   * @param running the adapters of all other running sequences, fewer than `capacity` besides this one; they stay
   * @returns whether the adapter must be loaded
   */
  begin(adapter: string | undefined, running: LoraSlots): boolean {
    if (adapter === undefined) return false;
    const load = !this.#names.delete(adapter);
    if (load && this.#names.size === this.capacity) {
      for (const name of this.#names) {
        if (running.runs(name)) continue;
        this.#names.delete(name);
        break;
      }
    }
    this.#names.add(adapter);
    return load;
  }

  /** Ends a sequence: its adapter was in use until now. */
  end(adapter: string | undefined): void {
    if (adapter !== undefined && this.#names.delete(adapter)) this.#names.add(adapter);
  }
}
