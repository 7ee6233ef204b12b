import type { Reservations } from "../../base/plugin/gate.ts";
import type { Claim } from "../brokers/broker.ts";
import type { Ticket } from "../gates/budget/capacity.ts";
import type { Slotted } from "./unordered-set.ts";

/** A gate's function may be asynchronous. */
type Release = (unsent?: boolean) => unknown;

/** A reservation of a gate. */
interface Reserved {
  /** Such as `the gate of queue chat`. */
  readonly gate: string;
  readonly release: Release;
}

/** Called when a gate did not take back a reservation. @param gate such as `the gate of queue chat` */
export type ReleaseFailed = (problem: unknown, gate: string) => void;

/** A claimed message on its way through this process. */
export class Delivery implements Slotted {
  readonly claim: Claim;
  /** Place in the set of held deliveries. */
  slot = -1;
  /** Labels of the message, as the gates left them. */
  readonly labels: Record<string, string>;
  /** When it was claimed; monotonic milliseconds, as the two below. */
  readonly claimedAt: number;
  /** When the message was last known not to be cancelled. */
  checkedAt: number;
  /** End of the lease, unless it is renewed. After it, another process may have the message. */
  leaseUntil: number;
  /** Aborted when the process ends: no code needs to wait for a gate's verdict on the message any more. */
  readonly signal: AbortSignal;
  readonly #releases: Reserved[] = [];
  readonly #onReleaseFailed: ReleaseFailed;
  #tickets: readonly Ticket[] = [];
  #sent = false;
  #ended = false;

  constructor(
    claim: Claim,
    {
      now,
      leaseUntil,
      signal,
      onReleaseFailed,
    }: { now: number; leaseUntil: number; signal: AbortSignal; onReleaseFailed: ReleaseFailed },
  ) {
    this.claim = claim;
    this.signal = signal;
    this.labels = { ...claim.message.routing.labels };
    this.claimedAt = now;
    this.checkedAt = now;
    this.leaseUntil = leaseUntil;
    this.#onReleaseFailed = onReleaseFailed;
  }

  /**
   * Collects the reservations of a gate.
   * @param gate its name in the log, such as `the gate of queue chat`
   * @returns the reservations, and a function that undoes exactly these
   */
  reserve(gate: string): { readonly reservations: Reservations; undo(): void } {
    const from = this.#releases.length;
    let open = true;
    return {
      reservations: {
        add: (release) => {
          // The gate gave a verdict that no code waited for.
          if (this.#ended || !open) this.#giveBack([{ gate, release }], true);
          else this.#releases.push({ gate, release });
        },
      },
      undo: () => {
        open = false;
        this.#giveBack(this.#releases.splice(from), true);
      },
    };
  }

  /** Room was taken for the message. */
  admitted(tickets: readonly Ticket[]): void {
    this.#tickets = tickets;
  }

  /** The message leaves for the gateway now. @param cost per capacity, in the order of the tickets */
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

  /** The message has left this process: its outcome is written, or waits to be written. */
  get ended(): boolean {
    return this.#ended;
  }

  /** The message leaves this process and gives back all that it took. @returns false when it has left before */
  end(): boolean {
    if (this.#ended) return false;
    this.#ended = true;
    this.release();
    return true;
  }

  /** Never throws: a gate may be the user's code, and its errors must end neither the message nor the process. */
  #giveBack(reserved: readonly Reserved[], unsent: boolean): void {
    for (const { gate, release } of reserved.toReversed()) {
      try {
        Promise.resolve(release(unsent)).catch((error: unknown) => this.#onReleaseFailed(error, gate));
      } catch (error) {
        this.#onReleaseFailed(error, gate);
      }
    }
  }
}
