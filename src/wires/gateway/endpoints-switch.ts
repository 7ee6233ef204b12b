import type { DiscoveredPool, RunningDiscovery } from "../../pool/discovery/pool-filler.ts";

/**
 * Lets one discovery at a time fill the pool. A new one takes over at its first answer, in one step. Until then, and where it
 * has none, the old one goes on.
 */
export class EndpointsSwitch {
  readonly #registry: DiscoveredPool;
  readonly #unfollowed: (error: unknown) => void;
  #running: RunningDiscovery | undefined;
  #closed = false;

  /** @param unfollowed receives the error of a discovery that has taken over, and then breaks: its endpoints are in force */
  constructor(registry: DiscoveredPool, unfollowed: (error: unknown) => void) {
    this.#registry = registry;
    this.#unfollowed = unfollowed;
  }

  /**
   * @param make makes the discovery that fills the given pool
   * @param taken called in the same step, before the pool changes; when it throws, everything stays as it was
   * @throws the error of `taken`, or of a discovery that starts without an answer; then nothing has changed
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
      if (!isIn) {
        next.close();
        throw error;
      }
      // What has taken over stays. Whoever asked for the change must not hear that it was refused.
      this.#unfollowed(error);
    }
    if (this.#closed) next.close();
  }

  close(): void {
    this.#closed = true;
    this.#running?.close();
  }
}
