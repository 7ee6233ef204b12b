import type { Clock, Timer } from "../clock/clock.ts";
import { Delivery } from "./delivery.ts";
import type { Broker, Claim } from "./queues/broker.ts";
import type { LeaseSettings } from "./settings.ts";

/** Claims per renewal call. */
const BATCH = 500;
const SHORTEST_BEAT = 1000;
const LONGEST_BEAT = 30_000;

export interface LeasesOptions {
  readonly broker: Pick<Broker, "renew" | "reclaim">;
  readonly clock: Clock;
  readonly settings: LeaseSettings;
  /** Aborted when nothing that waits shall wait any longer. */
  readonly draining: AbortSignal;
  /** The broker could not be asked; it is asked again at the next beat. */
  onError(problem: unknown): void;
  onLost(claim: Claim): void;
}

/** Everything this process holds under a lease: renewed at a third of its life, and given to others when it is lost. */
export class Leases {
  readonly #options: LeasesOptions;
  readonly #held = new Map<string, Delivery>();
  #timers: Timer[] = [];
  #stopped = false;

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#held.size;
  }

  hold(claim: Claim): Delivery {
    const delivery = new Delivery(claim, this.#options.clock.now(), this.#options.draining);
    this.#held.set(claim.id, delivery);
    return delivery;
  }

  get(claim: Claim): Delivery {
    return this.#held.get(claim.id)!;
  }

  /** The claim is settled. */
  forget(claim: Claim): void {
    this.#held.delete(claim.id);
  }

  start(): void {
    const { claimTtl, reclaimInterval } = this.#options.settings;
    const beat = Math.min(claimTtl / 2, Math.max(SHORTEST_BEAT, Math.min(LONGEST_BEAT, claimTtl / 3)));
    this.#every(beat, () => this.#renew());
    this.#every(reclaimInterval, () => this.#options.broker.reclaim(new Set(this.#held.keys())));
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers) timer.cancel();
  }

  async #renew(): Promise<void> {
    const claims = [...this.#held.values()].map(({ claim }) => claim).filter((claim) => !claim.lost);
    for (let from = 0; from < claims.length; from += BATCH)
      for (const lost of await this.#options.broker.renew(claims.slice(from, from + BATCH))) this.#options.onLost(lost);
  }

  #every(ms: number, act: () => Promise<void>): void {
    const slot = this.#timers.length;
    const again = (): void => {
      if (this.#stopped) return;
      this.#timers[slot] = this.#options.clock.after(ms, () => {
        act().catch(this.#options.onError).finally(again);
      });
    };
    again();
  }
}
