const NO_ADAPTERS: ReadonlySet<string> = new Set();

/**
 * Which LoRA adapters the running batch uses: at most `maxLoras` distinct ones at a time. A sequence without an adapter
 * needs no slot. Its maps hold an entry per adapter of a running or waiting sequence, so those bound them.
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

  /** Whether some adapter might not fit: a reason to look past the head of the queue. */
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

  /** Adapters in the running batch; the set returned is never changed afterwards. */
  get running(): ReadonlySet<string> {
    this.#runningNames ??= new Set(this.#running.keys());
    return this.#runningNames;
  }

  /** Adapters of queued sequences; the set returned is never changed afterwards. */
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
 * The LoRA adapters in the memory of an engine: as many as fit one batch. One stays when its last sequence has ended, until
 * an adapter that is not there needs the room; then the one goes that has not been used for longest, as in vLLM.
 */
export class ResidentAdapters {
  readonly capacity: number;
  /** The one not used for longest comes first. */
  readonly #names = new Set<string>();

  /** @param capacity adapters, >= 1 */
  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** Adapters that are loaded, the one not used for longest first. */
  get names(): readonly string[] {
    return [...this.#names];
  }

  /**
   * A sequence starts.
   * @param running the adapters of all other running sequences, fewer than `capacity` besides this one; they stay
   * @returns whether its adapter has to be loaded
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

  /** A sequence stops: its adapter was in use until now. */
  end(adapter: string | undefined): void {
    if (adapter !== undefined && this.#names.delete(adapter)) this.#names.add(adapter);
  }
}
