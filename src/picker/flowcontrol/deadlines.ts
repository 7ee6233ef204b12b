import { type Clock, expireAfter, type Timer } from "../../base/clock/clock.ts";
import { type Item, STAGE } from "./flow.ts";
import type { FlowRules } from "./rules.ts";

export interface DeadlinesParts {
  readonly clock: Clock;
  readonly poolIsEmpty: () => boolean;
  /** A request has waited for its time to live; it leaves its queue before this returns. */
  readonly expired: (item: Item) => void;
}

/** The queued requests with one time to live, by arrival, from `next` on: they expire in this order. */
interface Lane {
  /** Those that have left stay until the lane is swept. */
  items: Item[];
  next: number;
}

/** Requests that have left and are still kept, beside as many as wait. */
const MOST_LEFT = 64;

/**
 * All queued requests by the time at which they expire, which the rules of the release set. By the usual ones a request may wait
 * for its own time to live while the pool has endpoints, and for `noEndpointTtl` while it has none. Its time starts when it
 * enters, and again when the pool becomes empty or gets its first endpoint (scheduling 6.7).
 *
 * Almost every request leaves before it expires, so leaving costs nothing here: requests that have left are skipped, and swept
 * out once they are more than those that wait.
 */
export class Deadlines {
  readonly #parts: DeadlinesParts;
  /** By time to live. Bands have few different ones. */
  readonly #lanes = new Map<number, Lane>();
  #waiting = 0;
  /** Requests that have left and are still in a lane. */
  #left = 0;
  #noEndpointTtl: number;
  #rules: FlowRules;
  #poolEmpty = false;
  /** Monotonic milliseconds of the last change of `#poolEmpty`. */
  #poolSince: number;
  #timer: Timer | undefined;
  /** What the timer is armed for; Infinity = it is not armed. */
  #timerAt = Number.POSITIVE_INFINITY;
  #closed = false;

  /** @param noEndpointTtl milliseconds; Infinity = any time */
  constructor(parts: DeadlinesParts, noEndpointTtl: number, rules: FlowRules) {
    this.#parts = parts;
    this.#noEndpointTtl = noEndpointTtl;
    this.#rules = rules;
    this.#poolSince = parts.clock.now();
  }

  /** Requests are added in the order of their arrival. */
  add(item: Item): void {
    const lane = this.#lanes.get(item.ttl);
    if (lane === undefined) this.#lanes.set(item.ttl, { items: [item], next: 0 });
    else lane.items.push(item);
    this.#waiting++;
    this.#arm(this.#deadlineOf(item));
  }

  /** One of the requests leaves its queue. The caller changes its stage before it calls anything else here. */
  leaves(item: Item): void {
    this.#waiting--;
    this.#left++;
    if (this.#waiting === 0 || this.#left > this.#waiting + MOST_LEFT) this.#sweep(item);
  }

  /** All queued requests in the order of their arrival. Looks at every request. */
  byArrival(): Item[] {
    const items: Item[] = [];
    for (const lane of this.#lanes.values()) for (const item of lane.items) if (waits(item)) items.push(item);
    return items.sort((a, b) => a.order - b.order);
  }

  /** Puts another time without endpoints in force, for requests that wait, too. */
  use(noEndpointTtl: number, rules = this.#rules): void {
    this.#noEndpointTtl = noEndpointTtl;
    this.#rules = rules;
    this.#renew();
  }

  /** As of the last look. */
  get poolEmpty(): boolean {
    return this.#poolEmpty;
  }

  /** Looks whether the pool is empty, and gives all requests new deadlines when that has changed. */
  lookAtPool(): boolean {
    const isEmpty = this.#parts.poolIsEmpty();
    if (isEmpty === this.#poolEmpty) return isEmpty;
    this.#poolEmpty = isEmpty;
    this.#poolSince = this.#parts.clock.now();
    this.#renew();
    return isEmpty;
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  #deadlineOf({ enqueuedAt, ttl }: Item): number {
    const [noEndpointTtl, poolEmpty, poolSince] = [this.#noEndpointTtl, this.#poolEmpty, this.#poolSince];
    return this.#rules.deadline({ enqueuedAt, ttl, noEndpointTtl, poolEmpty, poolSince });
  }

  /** The request that expires first; of equals the one that came first. */
  #first(): Item | undefined {
    let first: Item | undefined;
    let earliest = Number.POSITIVE_INFINITY;
    for (const lane of this.#lanes.values()) {
      while (lane.next < lane.items.length && !waits(lane.items[lane.next]!)) lane.next++;
      const item = lane.items[lane.next];
      if (item === undefined) continue;
      const deadline = this.#deadlineOf(item);
      if (first !== undefined && (deadline > earliest || (deadline === earliest && item.order > first.order))) continue;
      first = item;
      earliest = deadline;
    }
    return first;
  }

  #sweep(leaving: Item): void {
    this.#left = 0;
    for (const [ttl, lane] of this.#lanes) {
      lane.items = lane.items.filter((item) => waits(item) && item !== leaving);
      lane.next = 0;
      if (lane.items.length === 0) this.#lanes.delete(ttl);
    }
  }

  #renew(): void {
    const first = this.#first();
    if (first !== undefined) this.#arm(this.#deadlineOf(first));
  }

  /** Arms the timer for a deadline. A timer that is armed for an earlier time stays: it arms the next one. */
  #arm(deadline: number): void {
    if (deadline >= this.#timerAt || this.#closed) return;
    this.#timer?.cancel();
    this.#timerAt = deadline;
    const { clock } = this.#parts;
    this.#timer = expireAfter(clock, deadline - clock.now(), () => this.#expire(), true);
  }

  #expire(): void {
    this.#timerAt = Number.POSITIVE_INFINITY;
    this.lookAtPool();
    const now = this.#parts.clock.now();
    for (;;) {
      const first = this.#first();
      if (first === undefined || this.#deadlineOf(first) > now) break;
      this.#parts.expired(first);
    }
    this.#renew();
  }
}

function waits(item: Item): boolean {
  return item.stage === STAGE.queued;
}
