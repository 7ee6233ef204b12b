import type { Asker, SharedCapacity, Ticket } from "../gates/budget/capacity.ts";
import type { RequestCosts } from "../gates/budget/cost.ts";
import type { Delivery } from "./delivery.ts";

/** Weight of the newest message in the mean cost. */
const NEWEST = 0.1;

/** The capacities that a queue's messages spend, all at once: its own gate's and its pool's. */
export class Admission {
  readonly capacities: readonly SharedCapacity[];
  readonly #asker: Asker;
  readonly #costs: RequestCosts;
  readonly #meanCosts: number[];
  #expected = 0;
  /** The cost that stands for it in each capacity. */
  readonly #expectedCosts: number[];

  constructor(capacities: readonly SharedCapacity[], asker: Asker, costs: RequestCosts) {
    this.capacities = capacities;
    this.#asker = asker;
    this.#costs = costs;
    this.#meanCosts = capacities.map(() => 1);
    this.#expectedCosts = capacities.map(() => 0);
  }

  /** Reads all of them. @param fresh past the caches */
  async refresh(fresh: boolean): Promise<void> {
    if (this.capacities.length > 0) await Promise.all(this.capacities.map((capacity) => capacity.refresh(fresh)));
  }

  /** How many messages of the usual cost may go, at most `most`. */
  affordable(most: number): number {
    let count = most;
    for (const [i, capacity] of this.capacities.entries()) {
      const allowance = capacity.allowance(this.#asker) - capacity.expected;
      const free = (allowance > 0 || capacity.expected === 0) && capacity.room(this.#asker) === "free";
      // One is always worth a try where there is anything: its cost is known only when it is here.
      const affordable = Math.max(Math.floor(allowance / this.#usualCost(i)), free ? 1 : 0);
      count = Math.min(count, affordable);
    }
    return count;
  }

  /**
   * So many messages are asked of the broker, or have come and were not looked at yet: others that share the capacities ask
   * for what is left, or all but one of them would have to put theirs back. What is taken counts as come.
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

  /** Of what was asked for nothing more comes. */
  spare(): void {
    this.expect(0);
    for (const capacity of this.capacities) capacity.spared();
  }

  #usualCost(i: number): number {
    return this.capacities[i]!.reading.unit === "requests" ? 1 : this.#meanCosts[i]!;
  }

  /** `closed`: a gate lets nothing pass. `full`: what runs already is all that may. */
  get room(): "free" | "full" | "closed" {
    let room: "free" | "full" = "free";
    for (const capacity of this.capacities) {
      const state = capacity.room(this.#asker);
      if (state === "closed") return state;
      if (state === "full") room = state;
    }
    return room;
  }

  /** One of them is closed because the gateway said that it is overloaded. */
  get latched(): boolean {
    return this.capacities.some(({ state }) => state === "latched");
  }

  /** N of the one that lets least through; undefined where nothing limits. */
  get total(): number | undefined {
    if (this.capacities.length === 0) return undefined;
    return Math.min(...this.capacities.map((capacity) => capacity.total(this.#asker.workers)));
  }

  /** Takes room in all of them, or in none. @returns whether there was room */
  take(delivery: Delivery): boolean {
    if (this.capacities.length === 0) return true;
    const { payload } = delivery.claim.message.request;
    const costs = this.capacities.map(({ reading }) => this.#costs.of(payload, reading.unit));
    // Looked at first: what is taken and given back at once would be news to everybody who waits for room.
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
   * What was taken may still be used.
   * @param strictly also not when newer readings leave less room than is taken
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

  /** The gateway is overloaded: closed until a later sample. */
  latch(): void {
    for (const capacity of this.capacities) capacity.latch();
  }
}
