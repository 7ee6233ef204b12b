import type { LoraSlots } from "./lora.ts";

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
