import type { Reservations } from "../../base/plugin/gate.ts";
import type { Claim } from "../brokers/broker.ts";
import type { Ticket } from "../gates/budget/capacity.ts";
import type { Slotted } from "./unordered-set.ts";

/** A gate may have written an asynchronous function. */
type Release = (unsent?: boolean) => unknown;

/** A claimed message on its way through this process. */
export class Delivery implements Slotted {
  readonly claim: Claim;
  /** Among what is held. */
  slot = -1;
  /** Of the message, as the gates leave them. */
  readonly labels: Record<string, string>;
  /** When it was claimed; monotonic milliseconds, as the two below. */
  readonly claimedAt: number;
  /** When it was last known not to be cancelled. */
  checkedAt: number;
  /** When its lease ends, unless it is renewed: from then on somebody else may have it. */
  leaseUntil: number;
  /** Aborted when the process ends: whoever waits for a gate's verdict about it need not. */
  readonly signal: AbortSignal;
  readonly #releases: Release[] = [];
  readonly #onReleaseFailed: (problem: unknown) => void;
  #tickets: readonly Ticket[] = [];
  #sent = false;
  #ended = false;

  /** @param onReleaseFailed a gate did not take back what it had reserved */
  constructor(
    claim: Claim,
    {
      now,
      leaseUntil,
      signal,
      onReleaseFailed,
    }: { now: number; leaseUntil: number; signal: AbortSignal; onReleaseFailed(problem: unknown): void },
  ) {
    this.claim = claim;
    this.signal = signal;
    this.labels = { ...claim.message.routing.labels };
    this.claimedAt = now;
    this.checkedAt = now;
    this.leaseUntil = leaseUntil;
    this.#onReleaseFailed = onReleaseFailed;
  }

  /** Collects what gates reserve. @returns the reservations, and what undoes exactly these */
  reserve(): { readonly reservations: Reservations; undo(): void } {
    const from = this.#releases.length;
    let open = true;
    return {
      reservations: {
        add: (release) => {
          // A gate whose verdict nobody has waited for.
          if (this.#ended || !open) this.#giveBack([release], true);
          else this.#releases.push(release);
        },
      },
      undo: () => {
        open = false;
        this.#giveBack(this.#releases.splice(from), true);
      },
    };
  }

  /** Room was taken for it. */
  admitted(tickets: readonly Ticket[]): void {
    this.#tickets = tickets;
  }

  /** It leaves for the gateway now. @param cost per capacity, in the order of the tickets */
  started(costs: readonly number[]): void {
    this.#sent = true;
    for (const [i, ticket] of this.#tickets.entries()) ticket.started(costs[i]);
  }

  /** Gives back all room and all reservations; a second call does nothing. */
  release(): void {
    for (const ticket of this.#tickets) ticket.release();
    this.#tickets = [];
    this.#giveBack(this.#releases.splice(0), !this.#sent);
  }

  /** It has left this process: what became of it waits to be written, or is written. */
  get ended(): boolean {
    return this.#ended;
  }

  /** It leaves this process, and everything it had taken is given back. @returns false when it has left before */
  end(): boolean {
    if (this.#ended) return false;
    this.#ended = true;
    this.release();
    return true;
  }

  /** Never throws: gates may be anybody's, and what one does wrong must end neither the message nor the process. */
  #giveBack(releases: readonly Release[], unsent: boolean): void {
    for (const release of releases.toReversed()) {
      try {
        Promise.resolve(release(unsent)).catch(this.#onReleaseFailed);
      } catch (error) {
        this.#onReleaseFailed(error);
      }
    }
  }
}
