import { type Clock, expireAfter, type Timer } from "../../base/clock/clock.ts";
import type { Item } from "./flow.ts";
import { IndexedHeap } from "./indexed-heap.ts";

/** The most requests that one decision revokes: an estimate decides, so a small step is tried first. */
const MOST_AT_ONCE = 2;
/** Milliseconds after which a request that does not end counts as ended. */
const CONFIRMATION_TIMEOUT = 10_000;

/** A band that requests in flight must make room for. */
export interface Demand {
  readonly priority: number;
  readonly saturation: number;
  readonly ceiling: number;
  /** Requests that flow control has let go and that have not ended, at least 1. */
  readonly inFlight: number;
}

/**
 * Returns how many requests to revoke, at least 1: as many as bring the saturation down to the ceiling, if each of those in
 * flight contributes the same (scheduling 6.9).
 */
export function revocationsFor({ saturation, ceiling, inFlight }: Omit<Demand, "priority">): number {
  const credit = saturation / inFlight;
  return Math.min(MOST_AT_ONCE, Math.max(1, Math.ceil((saturation - ceiling) / credit)));
}

/** What metrics learn. */
export interface ReclaimEvents {
  /** A request was revoked for a band. */
  revoked(demand: number): void;
  /** @param took milliseconds from the revocation to the end of the request, or to the timeout */
  revocationEnded(outcome: "confirmed" | "timed_out", took: number): void;
}

interface Revocation {
  readonly at: number;
  readonly credit: number;
  readonly timer: Timer;
}

/**
 * Ends sheddable requests in flight when requests of higher priority wait for room (scheduling 6.9). After a decision it waits
 * until the revoked requests have ended and the saturation can show it: so it never acts twice on the same figure.
 */
export class Reclaim {
  readonly #clock: Clock;
  readonly #events: ReclaimEvents;
  /** Called when another decision may be made. */
  readonly #ready: () => void;
  /** Tells a request to end. Never throws. */
  readonly #tell: (victim: Item) => void;
  /** Sheddable requests in flight that were not revoked: the lowest priority first, of equals the one that arrived last. */
  readonly #victims = new IndexedHeap<Item>();
  readonly #open = new Map<Item, Revocation>();
  /** Revocations that have ended, and that the saturation may not show yet. */
  #settling = 0;
  #closed = false;
  /** Saturation that was to be given back at the last decision. */
  target = 0;
  /** Saturation that revoked requests give back, and that may not show yet. */
  pending = 0;

  constructor(clock: Clock, events: ReclaimEvents, tell: (victim: Item) => void, ready: () => void) {
    this.#clock = clock;
    this.#events = events;
    this.#tell = tell;
    this.#ready = ready;
  }

  /** Whether a decision may be made for a band of this priority. */
  mayRevokeFor(priority: number): boolean {
    if (this.#open.size > 0 || this.#settling > 0) return false;
    return this.#victims.first !== undefined && this.#victims.first.priority < priority;
  }

  dispatched(item: Item): void {
    if (item.priority < 0) this.#victims.add(item, item.priority, -item.order);
  }

  /** @param settles milliseconds until the saturation shows that the request has ended */
  ended(item: Item, settles: number): void {
    this.#victims.remove(item);
    this.#confirm(item, "confirmed", settles);
  }

  /** Revokes requests of lower priority. @param settles see `ended` */
  revoke(demand: Demand, settles: number): void {
    const { priority, saturation, ceiling, inFlight } = demand;
    this.target = saturation - ceiling;
    const credit = saturation / inFlight;
    for (let left = revocationsFor(demand); left > 0; left--) {
      const victim = this.#victims.first;
      if (victim === undefined || victim.priority >= priority) return;
      this.#victims.remove(victim);
      const timer = expireAfter(
        this.#clock,
        CONFIRMATION_TIMEOUT,
        () => this.#confirm(victim, "timed_out", settles),
        true,
      );
      this.#open.set(victim, { at: this.#clock.now(), credit, timer });
      this.pending += credit;
      this.#events.revoked(priority);
      this.#tell(victim);
    }
  }

  /** Forgets everything: no decision is made any more. */
  close(): void {
    this.#closed = true;
    for (const { timer } of this.#open.values()) timer.cancel();
    this.#open.clear();
  }

  #confirm(item: Item, outcome: "confirmed" | "timed_out", settles: number): void {
    const revocation = this.#open.get(item);
    if (revocation === undefined) return;
    revocation.timer.cancel();
    this.#open.delete(item);
    this.#events.revocationEnded(outcome, this.#clock.now() - revocation.at);
    if (this.#closed) return;
    this.#settling++;
    this.#clock.after(
      settles,
      () => {
        this.#settling--;
        this.pending = this.#settling === 0 && this.#open.size === 0 ? 0 : this.pending - revocation.credit;
        this.#ready();
      },
      true,
    );
  }
}
