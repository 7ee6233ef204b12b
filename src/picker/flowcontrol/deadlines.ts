import { type Clock, expireAfter, type Timer } from "../../base/clock/clock.ts";
import type { Item } from "./flow.ts";
import { type HeapOrder, IndexedHeap } from "./indexed-heap.ts";
import type { FlowRules } from "./rules.ts";

const BY_DEADLINE: HeapOrder<Item> = {
  before: (a, b) => a.deadline < b.deadline || (a.deadline === b.deadline && a.order < b.order),
  place: (item) => item.deadlinePlace,
  setPlace: (item, place) => {
    item.deadlinePlace = place;
  },
};

export interface DeadlinesParts {
  readonly clock: Clock;
  readonly poolIsEmpty: () => boolean;
  /** A request has waited for its time to live; it leaves the deadlines with `remove`. */
  readonly expired: (item: Item) => void;
}

/**
 * All queued requests by the time at which they expire, which the rules of the release set. By the usual ones a request may wait
 * for its own time to live while the pool has endpoints, and for `noEndpointTtl` while it has none. Its time starts when it
 * enters, and again when the pool becomes empty or gets its first endpoint (scheduling 6.7).
 */
export class Deadlines {
  readonly #parts: DeadlinesParts;
  readonly #heap = new IndexedHeap(BY_DEADLINE);
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

  add(item: Item): void {
    this.#set(item);
    this.#heap.add(item);
    this.#arm();
  }

  /** No effect for a request that is not here. */
  remove(item: Item): void {
    this.#heap.remove(item);
  }

  /** All queued requests in the order of their arrival. Looks at every request. */
  byArrival(): Item[] {
    return [...this.#heap.entries].sort((a, b) => a.order - b.order);
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

  #set(item: Item): void {
    const { enqueuedAt, ttl } = item;
    const [noEndpointTtl, poolEmpty, poolSince] = [this.#noEndpointTtl, this.#poolEmpty, this.#poolSince];
    item.deadline = this.#rules.deadline({ enqueuedAt, ttl, noEndpointTtl, poolEmpty, poolSince });
  }

  #renew(): void {
    for (const item of this.#heap.entries) this.#set(item);
    this.#heap.rebuild();
    this.#arm();
  }

  /** Arms the timer for the first deadline. A timer that is armed for an earlier time stays: it arms the next one. */
  #arm(): void {
    const first = this.#heap.first?.deadline ?? Number.POSITIVE_INFINITY;
    if (first >= this.#timerAt || this.#closed) return;
    this.#timer?.cancel();
    this.#timerAt = first;
    const { clock } = this.#parts;
    this.#timer = expireAfter(clock, first - clock.now(), () => this.#expire(), true);
  }

  #expire(): void {
    this.#timerAt = Number.POSITIVE_INFINITY;
    this.lookAtPool();
    const now = this.#parts.clock.now();
    for (;;) {
      const first = this.#heap.first;
      if (first === undefined || first.deadline > now) break;
      this.#parts.expired(first);
    }
    this.#arm();
  }
}
