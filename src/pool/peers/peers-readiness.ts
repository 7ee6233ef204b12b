import type { Clock } from "../../base/clock/clock.ts";
import type { Peers } from "./peers.ts";

/** Milliseconds that a replica waits for its first catch-up. Then it is ready anyway: a store that is away stops nobody. */
export const FIRST_CATCH_UP = 5000;

/** Whether a replica that has just started knows what the others know. */
export class PeersReadiness {
  readonly #peers: Pick<Peers, "state">;
  readonly #clock: Clock;
  readonly #until: number;
  #passed = false;

  /** Begins to wait. */
  constructor(peers: Pick<Peers, "state">, clock: Clock) {
    this.#peers = peers;
    this.#clock = clock;
    this.#until = clock.now() + FIRST_CATCH_UP;
  }

  /** Why the replica is not ready yet; undefined once it was, for good. */
  unready(): string | undefined {
    if (this.#passed) return undefined;
    this.#passed = this.#peers.state === "in-step" || this.#clock.now() >= this.#until;
    return this.#passed ? undefined : "the replica is still reading what its peers know";
  }
}
