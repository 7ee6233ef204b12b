import type { RecordedWait } from "../../base/inference/decision-record.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { FlowChoice, QueuedFlow, QueuedRequest, ServedTokens } from "../../base/plugin/flow-kinds.ts";
import { type HeapOrder, IndexedHeap } from "./indexed-heap.ts";
import type { BandSettings } from "./settings.ts";

/** Learns how the wait of a request ended. */
export interface Waiter {
  /** The request may go on. The waiter calls `decided` of its ticket once it counts at an endpoint. */
  dispatched(): void;
  /** The request is refused. */
  evicted(rejection: Rejection): void;
  /** The request was dispatched and must end now, to make room for others. Absent = it cannot be ended. */
  revoke?(): void;
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
  readonly waiter: Waiter;
  /** Arrival number: requests of the same rank leave in this order. */
  readonly order: number;
  stage: Stage = STAGE.queued;
  rank = 0;
  /** Monotonic milliseconds at which it expires. */
  deadline = Number.POSITIVE_INFINITY;
  /** Places in the heaps of its queue and of all deadlines; -1 = not there. */
  queuePlace = -1;
  deadlinePlace = -1;
  /** Place in the heap of those that may be revoked; -1 = not there. */
  victimPlace = -1;
  band: Band | undefined;
  flow: Flow | undefined;
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

  constructor(waiter: Waiter, order: number, { request, receivedAt, enqueuedAt, ttl, bytes }: Readonly<QueuedRequest>) {
    this.waiter = waiter;
    this.order = order;
    this.#request = request;
    this.fairnessId = request.fairnessId;
    this.priority = request.priority;
    this.receivedAt = receivedAt;
    this.enqueuedAt = enqueuedAt;
    this.ttl = ttl;
    this.bytes = bytes;
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

/** By rank, then by arrival. */
const BY_RANK: HeapOrder<Item> = {
  before: (a, b) => a.rank < b.rank || (a.rank === b.rank && a.order < b.order),
  place: (item) => item.queuePlace,
  setPlace: (item, place) => {
    item.queuePlace = place;
  },
};

/** The queued requests of one flow; of a band with one queue, those of all flows. */
export class Flow implements QueuedFlow {
  readonly fairnessId: string;
  readonly items = new IndexedHeap(BY_RANK);

  constructor(fairnessId: string) {
    this.fairnessId = fairnessId;
  }

  get head(): Item {
    return this.items.first!;
  }

  get length(): number {
    return this.items.size;
  }
}

/** The queued requests of a band or of all bands, and their limits; Infinity = no limit. */
export interface QueueLoad {
  readonly requests: number;
  readonly bytes: number;
  readonly maxRequests: number;
  readonly maxBytes: number;
}

/** The load of one band. */
export interface BandLoad extends QueueLoad {
  readonly priority: number;
}

/** A flow as the debug page shows it. */
export interface FlowView {
  readonly fairnessId: string;
  readonly requests: number;
  /** Milliseconds that the request that leaves next has waited. */
  readonly headWait: number;
}

/** Receives the failure of a policy; the band goes on without its answer. */
export type PolicyFailed = (policy: string, error: unknown) => void;

/** The queues of one priority. A flow exists while it has requests, so flows are never more than requests. */
export class Band {
  readonly priority: number;
  readonly settings: BandSettings;
  /** Queued requests and the bytes of their bodies. */
  requests = 0;
  bytes = 0;
  /** Monotonic milliseconds since which it has been empty. */
  emptySince: number;
  readonly #flows = new Map<string, Flow>();
  readonly #choice: FlowChoice | undefined;
  readonly #failed: PolicyFailed;

  constructor(priority: number, settings: BandSettings, now: number, failed: PolicyFailed) {
    this.priority = priority;
    this.settings = settings;
    this.emptySince = now;
    this.#failed = failed;
    this.#choice = this.#makeChoice();
  }

  get load(): BandLoad {
    const { maxRequests, maxBytes } = this.settings;
    return { priority: this.priority, requests: this.requests, bytes: this.bytes, maxRequests, maxBytes };
  }

  /** Whether one more request of this size fits. */
  fits(bytes: number): boolean {
    return this.requests + 1 <= this.settings.maxRequests && this.bytes + bytes <= this.settings.maxBytes;
  }

  add(item: Item): void {
    item.rank = this.#rankOf(item);
    const id = this.#choice === undefined ? "" : item.fairnessId;
    let flow = this.#flows.get(id);
    const isNew = flow === undefined;
    if (flow === undefined) {
      flow = new Flow(id);
      this.#flows.set(id, flow);
    }
    flow.items.add(item);
    item.flow = flow;
    item.band = this;
    this.requests++;
    this.bytes += item.bytes;
    if (isNew) this.#call((choice) => choice.joined(flow));
  }

  /** @param now monotonic milliseconds */
  remove(item: Item, now: number): void {
    const flow = item.flow!;
    flow.items.remove(item);
    this.requests--;
    this.bytes -= item.bytes;
    if (this.requests === 0) this.emptySince = now;
    if (flow.length > 0) return;
    this.#flows.delete(flow.fairnessId);
    this.#call((choice) => choice.left(flow));
  }

  /** The request that leaves next; undefined when none is queued. The caller removes it. */
  take(now: number): Item | undefined {
    if (this.requests === 0) return undefined;
    const flow = this.#next(now);
    this.#call((choice) => choice.served(flow));
    return flow.head;
  }

  /** A request of the band is dispatched, perhaps without having been queued. */
  dispatched(item: Item): void {
    item.charged = this.#call((choice) => choice.dispatched?.(item)) ?? 0;
  }

  /** @param now monotonic milliseconds */
  ended(item: Item, tokens: ServedTokens, now: number): void {
    this.#call((choice) => choice.ended?.(item.fairnessId, tokens, item.charged, now));
  }

  /** All queued requests, in no order. */
  *items(): Iterable<Item> {
    for (const flow of this.#flows.values()) yield* flow.items.entries;
  }

  /**
   * The flows with queued requests, also where they share one queue: how many, and the longest ones first. Looks at every
   * request.
   * @param count of flows to name
   * @param now monotonic milliseconds
   */
  flowsNow(count: number, now: number): { readonly flows: number; readonly longest: readonly FlowView[] } {
    const found = new Map<string, { requests: number; head: Item }>();
    for (const item of this.items()) {
      const flow = found.get(item.fairnessId);
      if (flow === undefined) {
        found.set(item.fairnessId, { requests: 1, head: item });
        continue;
      }
      flow.requests++;
      if (BY_RANK.before(item, flow.head)) flow.head = item;
    }
    const longest = [...found]
      .sort(([, a], [, b]) => b.requests - a.requests)
      .slice(0, count)
      .map(([fairnessId, { requests, head }]) => ({ fairnessId, requests, headWait: now - head.enqueuedAt }));
    return { flows: found.size, longest };
  }

  #next(now: number): Flow {
    const first = (): Flow => this.#flows.values().next().value!;
    if (this.#choice === undefined) return first();
    const chosen = this.#call((choice) => {
      const flow: unknown = choice.next(now);
      if (flow instanceof Flow && this.#flows.get(flow.fairnessId) === flow) return flow;
      throw new TypeError("the policy chose no flow that waits in its band");
    });
    return chosen ?? first();
  }

  /** @returns undefined = all flows share one queue, also where the policy fails */
  #makeChoice(): FlowChoice | undefined {
    const { fairness } = this.settings;
    try {
      return fairness.oneQueue === true ? undefined : fairness.choice();
    } catch (error) {
      this.#failed("fairness policy", error);
      return undefined;
    }
  }

  #rankOf(item: Item): number {
    try {
      const rank: unknown = this.settings.ordering.rank(item);
      return typeof rank === "number" && !Number.isNaN(rank) ? rank : Number.POSITIVE_INFINITY;
    } catch (error) {
      this.#failed("ordering policy", error);
      return Number.POSITIVE_INFINITY;
    }
  }

  #call<T>(use: (choice: FlowChoice) => T): T | undefined {
    if (this.#choice === undefined) return undefined;
    try {
      return use(this.#choice);
    } catch (error) {
      this.#failed("fairness policy", error);
      return undefined;
    }
  }
}
