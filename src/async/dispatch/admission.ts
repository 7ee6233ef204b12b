import type { Asker, SharedCapacity, Ticket } from "../gates/budget/capacity.ts";
import type { RequestCosts } from "../gates/budget/cost.ts";
import type { Delivery } from "./delivery.ts";

/** Weight of the newest message in the mean cost. */
const NEWEST = 0.1;

/** The capacities that a queue's messages spend, all at once: those of the queue's gate and of its pool's gate. */
export class Admission {
  readonly capacities: readonly SharedCapacity[];
  readonly #asker: Asker;
  readonly #costs: RequestCosts;
  readonly #meanCosts: number[];
  #expected = 0;
  /** The expected cost in each capacity. */
  readonly #expectedCosts: number[];

  constructor(capacities: readonly SharedCapacity[], asker: Asker, costs: RequestCosts) {
    this.capacities = capacities;
    this.#asker = asker;
    this.#costs = costs;
    this.#meanCosts = capacities.map(() => 1);
    this.#expectedCosts = capacities.map(() => 0);
  }

  /** Reads all capacities. @param fresh past the caches */
  async refresh(fresh: boolean): Promise<void> {
    if (this.capacities.length > 0) await Promise.all(this.capacities.map((capacity) => capacity.refresh(fresh)));
  }

  /** How many messages of the usual cost may go, at most `most`. */
  affordable(most: number): number {
    let count = most;
    for (const [i, capacity] of this.capacities.entries()) {
      const allowance = capacity.allowance(this.#asker) - capacity.expected;
      const free = (allowance > 0 || capacity.expected === 0) && capacity.room(this.#asker) === "free";
      // One message is always worth a try where there is room: its cost is known only after the claim.
      const affordable = Math.max(Math.floor(allowance / this.#usualCost(i)), free ? 1 : 0);
      count = Math.min(count, affordable);
    }
    return count;
  }

  /**
   * Announces messages that the broker was asked for, or that came and are not judged yet. Other users of the capacities then
   * ask for the rest only; otherwise all but one would have to put their messages back. A message that took room is no longer
   * expected.
   */
  expect(count: number): void {
    if (count === this.#expected) return;
    this.#expected = count;
    for (const [i, capacity] of this.capacities.entries()) {
      const cost = count * this.#usualCost(i);
      capacity.expect(cost - this.#expectedCosts[i]!);
      this.#expectedCosts[i] = cost;
    }
  }

  /** No more of the expected messages come. */
  spare(): void {
    this.expect(0);
    for (const capacity of this.capacities) capacity.spared();
  }

  #usualCost(i: number): number {
    return this.capacities[i]!.reading.unit === "requests" ? 1 : this.#meanCosts[i]!;
  }

  /** `closed`: a gate lets nothing pass. `full`: the running messages use all the room. */
  get room(): "free" | "full" | "closed" {
    let room: "free" | "full" = "free";
    for (const capacity of this.capacities) {
      const state = capacity.room(this.#asker);
      if (state === "closed") return state;
      if (state === "full") room = state;
    }
    return room;
  }

  /** True: an overload answer of the gateway holds one of the capacities closed. */
  get latched(): boolean {
    return this.capacities.some(({ state }) => state === "latched");
  }

  /** N of the capacity with the smallest N; undefined where nothing limits. */
  get total(): number | undefined {
    if (this.capacities.length === 0) return undefined;
    return Math.min(...this.capacities.map((capacity) => capacity.total(this.#asker.workers)));
  }

  /** Takes room in all of them, or in none. @returns whether there was room */
  take(delivery: Delivery): boolean {
    if (this.capacities.length === 0) return true;
    const { payload } = delivery.claim.message.request;
    const costs = this.capacities.map(({ reading }) => this.#costs.of(payload, reading.unit));
    // Checked first: room that is taken and given back at once would wake all who wait for room.
    if (!this.capacities.every((capacity, i) => capacity.fits(costs[i]!, this.#asker))) return false;
    const tickets: Ticket[] = [];
    for (const [i, capacity] of this.capacities.entries()) {
      tickets.push(capacity.take(costs[i]!, this.#asker)!);
      this.#meanCosts[i] = this.#meanCosts[i]! * (1 - NEWEST) + costs[i]! * NEWEST;
    }
    delivery.admitted(tickets);
    if (this.#expected > 0) this.expect(this.#expected - 1);
    return true;
  }

  /**
   * Whether the message may still use the room that it took.
   * @param strictly true: not when newer readings leave less room than is taken
   */
  holds(strictly: boolean): boolean {
    return this.capacities.every((capacity) =>
      strictly ? !capacity.overdrawn(this.#asker) : capacity.room(this.#asker) !== "closed",
    );
  }

  /** The message leaves now, with this body. */
  started(delivery: Delivery, body: Uint8Array): void {
    delivery.started(this.capacities.map((capacity) => this.#costs.of(body, capacity.reading.unit)));
  }

  /** The answer to a message came, with status 200. @param now monotonic milliseconds */
  answered(body: Uint8Array, answer: Uint8Array, now: number): void {
    if (this.capacities.some(({ reading }) => reading.unit === "tokens")) this.#costs.learn(body, answer, now);
  }

  /** The gateway is overloaded: closes the capacities until a later sample. */
  latch(): void {
    for (const capacity of this.capacities) capacity.latch();
  }
}
