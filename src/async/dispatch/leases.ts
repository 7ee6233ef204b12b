import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Broker, Claim } from "../brokers/broker.ts";
import type { LeaseSettings } from "../brokers/settings.ts";
import { Delivery, type ReleaseFailed } from "./delivery.ts";
import { UnorderedSet } from "./unordered-set.ts";

/** Claims per renewal call. */
const BATCH = 500;
const SHORTEST_BEAT = 1000;
const LONGEST_BEAT = 30_000;

export interface LeasesOptions {
  readonly broker: Pick<Broker, "renew" | "reclaim">;
  readonly clock: Clock;
  readonly settings: LeaseSettings;
  /** Aborted when all waiting must end. */
  readonly draining: AbortSignal;
  onLost(claim: Claim): void;
  readonly onReleaseFailed: ReleaseFailed;
}

/**
 * The messages that this process holds under a lease. Leases are renewed after a third of their length; a message whose lease
 * is lost belongs to another process.
 */
export class Leases {
  readonly #options: LeasesOptions;
  readonly #held = new UnorderedSet<Delivery>();
  #timers: Timer[] = [];
  #stopped = false;

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#held.size;
  }

  /** @param askedAt when the broker was asked for the claim, monotonic milliseconds: the lease began after that */
  hold(claim: Claim, askedAt: number): Delivery {
    const { clock, settings, draining: signal, onReleaseFailed } = this.#options;
    const leaseUntil = askedAt + settings.claimTtl;
    const delivery = new Delivery(claim, { now: clock.now(), leaseUntil, signal, onReleaseFailed });
    claim.holder = delivery;
    this.#held.add(delivery);
    return delivery;
  }

  /** @param claim one that is held */
  get(claim: Claim): Delivery {
    return claim.holder as Delivery;
  }

  /** The claim is settled. */
  forget(claim: Claim): void {
    this.#held.delete(this.get(claim));
  }

  start(): void {
    const { claimTtl, reclaimInterval } = this.#options.settings;
    const beat = Math.min(claimTtl / 2, Math.max(SHORTEST_BEAT, Math.min(LONGEST_BEAT, claimTtl / 3)));
    this.#every(beat, () => this.#renew());
    this.#every(reclaimInterval, () =>
      this.#options.broker.reclaim(new Set(this.#held.all().map(({ claim }) => claim.id))),
    );
  }

  /** Renews all leases now, outside the regular beat; the next beat repeats what fails. Never rejects. */
  async renewNow(): Promise<void> {
    if (this.#stopped) return;
    await this.#renew().catch(() => undefined);
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers) timer.cancel();
  }

  /** A batch that fails does not stop the others. @throws the error of the last batch that failed */
  async #renew(): Promise<void> {
    const { broker, clock, settings, onLost } = this.#options;
    const deliveries = this.#held.all().filter(({ claim }) => !claim.lost);
    let failure: { readonly problem: unknown } | undefined;
    for (let from = 0; from < deliveries.length; from += BATCH) {
      const batch = deliveries.slice(from, from + BATCH);
      const leaseUntil = clock.now() + settings.claimTtl;
      try {
        // A message that has left is on its way to the broker, whose answer then gives the outcome.
        for (const lost of await broker.renew(batch.map(({ claim }) => claim))) if (!this.get(lost).ended) onLost(lost);
        for (const delivery of batch) delivery.leaseUntil = leaseUntil;
      } catch (problem) {
        failure = { problem };
      }
    }
    if (failure !== undefined) throw failure.problem;
  }

  #every(ms: number, act: () => Promise<void>): void {
    const slot = this.#timers.length;
    const again = (pause: number): void => {
      if (this.#stopped) return;
      this.#timers[slot] = this.#options.clock.after(pause, () => {
        act().then(
          () => again(ms),
          () => {
            // BrokerHealth reports the broker's state. Two thirds of a lease of a minute are left: in that time, more than two
            // further attempts take place.
            again(Math.min(ms, SHORTEST_BEAT));
          },
        );
      });
    };
    again(ms);
  }
}
