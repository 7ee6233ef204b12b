import type { Reservations } from "../plugin/gate.ts";
import type { Ticket } from "./budget/capacity.ts";
import type { Claim } from "./queues/broker.ts";

/** A claimed message on its way through this process. */
export class Delivery {
  readonly claim: Claim;
  /** Of the message, as the gates leave them. */
  readonly labels: Record<string, string>;
  /** When it was last known not to be cancelled, and to be allowed by its capacities; monotonic milliseconds. */
  checkedAt: number;
  readonly #releases: ((unsent?: boolean) => void)[] = [];
  #tickets: readonly Ticket[] = [];
  #sent = false;

  /** Aborted when the process ends: whoever waits for a gate's verdict about it need not. */
  readonly signal: AbortSignal;

  /** @param now monotonic milliseconds */
  constructor(claim: Claim, now: number, signal: AbortSignal) {
    this.claim = claim;
    this.signal = signal;
    this.labels = { ...claim.message.routing.labels };
    this.checkedAt = now;
  }

  /** Collects what gates reserve. @returns the reservations, and what undoes exactly these */
  reserve(): { readonly reservations: Reservations; undo(): void } {
    const from = this.#releases.length;
    return {
      reservations: { add: (release) => this.#releases.push(release) },
      undo: () => release(this.#releases.splice(from), true),
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
    release(this.#releases.splice(0), !this.#sent);
  }
}

function release(releases: ((unsent?: boolean) => void)[], unsent: boolean): void {
  for (const each of releases.reverse()) each(unsent);
}
