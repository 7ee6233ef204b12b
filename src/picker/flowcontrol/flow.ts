import type { RecordedWait } from "../../base/inference/decision-record.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import { type InferenceRequest, promptTokens } from "../../base/inference/request.ts";
import type { QueuedFlow, QueuedRequest, ServedTokens } from "../../base/plugin/flow-kinds.ts";
import { IndexedHeap } from "./indexed-heap.ts";

/** Learns how the wait of a request ended. */
export interface Waiter {
  /** The request may go on. The waiter calls `decided` of its ticket once it counts at an endpoint. */
  dispatched(): void;
  /** The request is refused. */
  evicted(rejection: Rejection): void;
  /** The request was dispatched and must end now, to make room for others. Absent = it cannot be ended. */
  revoke?(): void;
}

/** The band that holds a request, or held it. */
export interface ItemBand {
  readonly priority: number;
  /** Removes a queued request. @param now monotonic milliseconds; the same below */
  remove(item: Item, now: number): void;
  /** A request of the band is dispatched, perhaps without having been queued. */
  dispatched(item: Item, now: number): void;
  ended(item: Item, tokens: ServedTokens): void;
}

/** The life of a request in flow control. Each state leads to a later one only. */
export const STAGE = { queued: 0, dispatched: 1, decided: 2, ended: 3 } as const;
export type Stage = (typeof STAGE)[keyof typeof STAGE];

/** One request in flow control. */
export class Item implements QueuedRequest {
  readonly fairnessId: string;
  /** Of the request itself, also where another band holds it. */
  readonly priority: number;
  readonly receivedAt: number;
  readonly enqueuedAt: number;
  readonly ttl: number;
  readonly bytes: number;
  readonly tokens: number;
  readonly waiter: Waiter;
  /** Arrival number: requests of the same rank leave in this order. */
  readonly order: number;
  stage: Stage = STAGE.queued;
  /** `enter` has not returned: the caller reads the fate of the request from its result, so the waiter is not called. */
  entering = false;
  /** Why it was refused. */
  rejection: Rejection | undefined;
  rank = 0;
  /** Place in the heap of its queue, where the queue has one; once it is dispatched, among those that may be revoked. */
  place = -1;
  band: ItemBand | undefined;
  flow: Flow | undefined;
  /** The neighbours in its queue by arrival. */
  older: Item | undefined;
  newer: Item | undefined;
  /** Tokens that the fairness policy has charged. */
  charged = 0;
  /** Requests of its band and of those above that were queued when it entered. */
  behind = 0;
  /** Monotonic milliseconds at which it left; NaN before. */
  leftAt = Number.NaN;
  /** What let it go; NaN before, and when it was refused. */
  saturation = Number.NaN;
  ceiling = Number.NaN;

  #request: InferenceRequest | undefined;

  constructor(
    waiter: Waiter,
    order: number,
    { request, receivedAt, enqueuedAt, ttl, bytes }: Omit<QueuedRequest, "tokens">,
  ) {
    this.waiter = waiter;
    this.order = order;
    this.#request = request;
    this.fairnessId = request.fairnessId;
    this.priority = request.priority;
    this.receivedAt = receivedAt;
    this.enqueuedAt = enqueuedAt;
    this.ttl = ttl;
    this.bytes = bytes;
    this.tokens = promptTokens(request);
  }

  /** Until it leaves. */
  get request(): InferenceRequest {
    return this.#request!;
  }

  /** The exchange keeps the item until its end, which must not keep the body. */
  forgetRequest(): void {
    this.#request = undefined;
  }

  get waiting(): boolean {
    return this.stage === STAGE.queued;
  }

  get wait(): RecordedWait {
    return {
      band: this.band!.priority,
      fairnessId: this.fairnessId,
      behind: this.behind,
      waitedMs: this.leftAt - this.enqueuedAt,
      saturation: this.saturation,
      ceiling: this.ceiling,
    };
  }
}

/**
 * The queued requests of one flow; of a band with one queue, those of all flows. They are a list by arrival. A heap by rank exists
 * only from the time at which a request ranks before one that came earlier until the flow is empty: first come, first served
 * needs none.
 */
export class Flow implements QueuedFlow {
  readonly fairnessId: string;
  length = 0;
  bytes = 0;
  /** The request that came last. */
  newest: Item | undefined;
  #oldest: Item | undefined;
  #ranked: IndexedHeap<Item> | undefined;
  readonly band: ItemBand;
  /** Number of the flow in its band. */
  readonly order: number;
  /** Place among the flows of its band by share; -1 = not there. */
  place = -1;

  constructor(fairnessId: string, band: ItemBand, order: number) {
    this.fairnessId = fairnessId;
    this.band = band;
    this.order = order;
  }

  get head(): Item {
    return this.#ranked === undefined ? this.#oldest! : this.#ranked.first!;
  }

  add(item: Item): void {
    const newest = this.newest;
    if (this.#ranked !== undefined) this.#ranked.add(item, item.rank, item.order);
    else if (newest !== undefined && item.rank < newest.rank) {
      this.#ranked = new IndexedHeap();
      for (const earlier of this.items()) this.#ranked.add(earlier, earlier.rank, earlier.order);
      this.#ranked.add(item, item.rank, item.order);
    }
    this.length++;
    this.bytes += item.bytes;
    item.older = newest;
    item.newer = undefined;
    if (newest === undefined) this.#oldest = item;
    else newest.newer = item;
    this.newest = item;
  }

  remove(item: Item): void {
    this.length--;
    this.bytes -= item.bytes;
    this.#ranked?.remove(item);
    if (item.newer === undefined) this.newest = item.older;
    else item.newer.older = item.older;
    if (item.older === undefined) this.#oldest = item.newer;
    else item.older.newer = item.newer;
    item.older = undefined;
    item.newer = undefined;
  }

  /** By arrival. */
  *items(): Iterable<Item> {
    for (let item = this.#oldest; item !== undefined; item = item.newer) yield item;
  }
}

/** Requests and bytes. */
export interface Room {
  readonly requests: number;
  readonly bytes: number;
}

/** The most requests that leave for one newcomer. */
const MOST_DISPLACED = 64;

/** The newest requests of a flow that together free `over`, newest first; empty where too many would have to leave. */
export function newestOf(flow: Flow | undefined, over: Room): readonly Item[] {
  const found: Item[] = [];
  let bytes = 0;
  for (let item = flow?.newest; item !== undefined && found.length < MOST_DISPLACED; item = item.older) {
    found.push(item);
    bytes += item.bytes;
    if (found.length >= over.requests && bytes >= over.bytes) return found;
  }
  return [];
}
