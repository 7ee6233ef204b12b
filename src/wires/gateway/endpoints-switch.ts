import type { DiscoveredPool, RunningDiscovery } from "../../pool/discovery/pool-filler.ts";

/**
 * Lets one discovery at a time fill the pool. A new one takes over at its first answer, in one step. Until then, and where it
 * has none, the old one goes on.
 */
export class EndpointsSwitch {
  readonly #registry: DiscoveredPool;
  #running: RunningDiscovery | undefined;
  #closed = false;

  constructor(registry: DiscoveredPool) {
    this.#registry = registry;
  }

  /**
   * @param make makes the discovery that fills the given pool
   * @param taken called in the same step, before the pool changes; when it throws, everything stays as it was
   * @throws the error of `taken`, or of the start of the discovery
   */
  async use(make: (pool: DiscoveredPool) => RunningDiscovery, taken: () => void = () => {}): Promise<void> {
    const registry = this.#registry;
    const old = this.#running;
    let isIn = false;
    const next = make({
      apply: (specs) => {
        if (!isIn) {
          taken();
          isIn = true;
          old?.close();
          this.#running = next;
        }
        return registry.apply(specs);
      },
      get size() {
        return registry.size;
      },
      maxEndpoints: registry.maxEndpoints,
    });
    try {
      await next.start();
    } catch (error) {
      // What has taken over stays: it has answered, and only cannot follow its source.
      if (!isIn) next.close();
      throw error;
    }
    if (this.#closed) next.close();
  }

  close(): void {
    this.#closed = true;
    this.#running?.close();
  }
}
