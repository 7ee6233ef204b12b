import type { Clock } from "../../base/clock/clock.ts";
import type { FlowChoice, ServedTokens } from "../../base/plugin/flow-kinds.ts";
import { Flow, type Item, type ItemBand, newestOf, type Room } from "./flow.ts";
import { IndexedHeap } from "./indexed-heap.ts";
import type { BandSettings } from "./settings.ts";

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

/** What a policy is told. */
const JOINED = (choice: FlowChoice, flow: Flow): void => choice.joined(flow);
const LEFT = (choice: FlowChoice, flow: Flow): void => choice.left(flow);
const SERVED = (choice: FlowChoice, flow: Flow): void => choice.served(flow);

/** Receives the failure of a policy; the band goes on without its answer. */
export type PolicyFailed = (policy: string, error: unknown) => void;

/**
 * The queues of one priority. A flow exists while it has requests, so flows are never more than requests. Where the fairness
 * policy fails to follow the flows, the band leaves it out from then on, and the flows take turns.
 */
export class Band implements ItemBand {
  readonly priority: number;
  readonly settings: BandSettings;
  readonly #clock: Clock;
  /** Queued requests and the bytes of their bodies. */
  requests = 0;
  bytes = 0;
  /** Monotonic milliseconds since which it has been empty. */
  emptySince: number;
  readonly #flows = new Map<string, Flow>();
  /** The flows by their share, from the first newcomer that finds the queue full until half of the requests have left. */
  #byShare: IndexedHeap<Flow> | undefined;
  /** Below so many requests `#byShare` is not needed any more. */
  #dropsShares = 0;
  /** Whether all flows share one queue. */
  readonly #oneQueue: boolean;
  #joins = 0;
  #choice: FlowChoice | undefined;
  readonly #failed: PolicyFailed;
  /** What the shares of flows are measured by: the limits of the band, or those over all bands where they are tighter. */
  readonly #limits: { readonly maxRequests: number; readonly maxBytes: number };

  /** @param all the limits over all bands */
  constructor(
    priority: number,
    settings: BandSettings,
    all: { readonly maxRequests: number; readonly maxBytes: number },
    clock: Clock,
    failed: PolicyFailed,
  ) {
    this.priority = priority;
    this.settings = settings;
    this.#limits = {
      maxRequests: Math.min(settings.maxRequests, all.maxRequests),
      maxBytes: Math.min(settings.maxBytes, all.maxBytes),
    };
    this.#clock = clock;
    this.emptySince = clock.now();
    this.#failed = failed;
    this.#choice = this.#makeChoice();
    this.#oneQueue = this.#choice === undefined;
  }

  get load(): BandLoad {
    const { maxRequests, maxBytes } = this.settings;
    const { priority, requests, bytes } = this;
    return { priority, requests, bytes, maxRequests, maxBytes };
  }

  add(item: Item): void {
    item.rank = this.#rankOf(item);
    const id = this.#oneQueue ? "" : item.fairnessId;
    let flow = this.#flows.get(id);
    const isNew = flow === undefined;
    if (flow === undefined) {
      flow = new Flow(id, this, this.#joins++);
      this.#flows.set(id, flow);
    }
    flow.add(item);
    item.flow = flow;
    item.band = this;
    this.requests++;
    this.bytes += item.bytes;
    if (this.#byShare !== undefined) this.#place(flow, this.#byShare);
    if (isNew && !this.#oneQueue) this.#follow(JOINED, flow);
  }

  /** @param now monotonic milliseconds */
  remove(item: Item, now: number): void {
    const flow = item.flow!;
    flow.remove(item);
    this.requests--;
    this.bytes -= item.bytes;
    if (this.requests === 0) this.emptySince = now;
    if (this.requests < this.#dropsShares) this.#forgetShares();
    if (this.#byShare !== undefined) this.#place(flow, this.#byShare);
    if (flow.length > 0) return;
    this.#flows.delete(flow.fairnessId);
    this.#follow(LEFT, flow);
  }

  /** The request that leaves next; undefined when none is queued, or all are held back at this fill. The caller removes it. */
  take(now: number, fill: number): Item | undefined {
    if (this.requests === 0) return undefined;
    const flow = this.#next(now, fill);
    if (flow === null) return undefined;
    this.#follow(SERVED, flow);
    return flow.head;
  }

  /**
   * The queued requests that leave so that a newcomer fits: the newest ones of the flow that holds most of the band. They leave
   * only if that flow then still holds as much as the newcomer's flow with it, so that no flow keeps the others out of a full
   * band, and none takes more than its share.
   * @param over how much must leave; one of the two is above 0
   * @returns newest first; empty = the newcomer has no claim
   */
  displacedBy(newcomer: Item, over: Room): readonly Item[] {
    if (this.#oneQueue) return [];
    const largest = this.#largest();
    const leave = newestOf(largest, over);
    if (largest === undefined || leave.length === 0) return [];
    const own = this.#flows.get(newcomer.fairnessId);
    const left = largest.bytes - leave.reduce((sum, { bytes }) => sum + bytes, 0);
    const kept = this.#shareOf(largest.length - leave.length, left);
    const gained = this.#shareOf((own?.length ?? 0) + 1, (own?.bytes ?? 0) + newcomer.bytes);
    return kept >= gained ? leave : [];
  }

  /** The queued requests that leave for a newcomer of a higher band: the newest ones of the largest flow. See `displacedBy`. */
  displacedFromAbove(over: Room): readonly Item[] {
    return newestOf(this.#oneQueue ? this.#flows.get("") : this.#largest(), over);
  }

  /** A request of the band is dispatched, perhaps without having been queued. @param now monotonic milliseconds */
  dispatched(item: Item, now: number): void {
    if (this.requests === 0) this.emptySince = now;
    // The most frequent case, one queue, costs nothing here; so below.
    if (this.#choice === undefined) return;
    try {
      item.charged = this.#choice.dispatched?.(item) ?? 0;
    } catch (error) {
      this.#failed("fairness policy", error);
    }
  }

  ended(item: Item, tokens: ServedTokens): void {
    if (this.#choice === undefined) return;
    try {
      this.#choice.ended?.(item.fairnessId, tokens, item.charged, this.#clock.now());
    } catch (error) {
      this.#failed("fairness policy", error);
    }
  }

  /** All queued requests, in no order. */
  *items(): Iterable<Item> {
    for (const flow of this.#flows.values()) yield* flow.items();
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
      if (item.rank < flow.head.rank) flow.head = item;
    }
    const longest = [...found]
      .sort(([, a], [, b]) => b.requests - a.requests)
      .slice(0, count)
      .map(([fairnessId, { requests, head }]) => ({ fairnessId, requests, headWait: now - head.enqueuedAt }));
    return { flows: found.size, longest };
  }

  /** Whether a request of this flow is held back at this fill. */
  holds(fairnessId: string, fill: number): boolean {
    if (this.#choice === undefined) return false;
    try {
      return this.#choice.holds?.(fairnessId, fill) ?? false;
    } catch (error) {
      this.#failed("fairness policy", error);
      return false;
    }
  }

  #next(now: number, fill: number): Flow | null {
    if (this.#choice === undefined) return this.#turn();
    try {
      const flow: unknown = this.#choice.next(now, fill);
      if (flow === null) return null;
      if (flow instanceof Flow && flow.band === this && flow.length > 0) return flow;
      throw new TypeError("the policy did not choose a waiting flow of its band");
    } catch (error) {
      this.#failed("fairness policy", error);
      return this.#turn();
    }
  }

  /** The flow that has not been first for longest. */
  #turn(): Flow {
    if (this.#oneQueue) return this.#flows.get("")!;
    const flow: Flow = this.#flows.values().next().value!;
    this.#flows.delete(flow.fairnessId);
    this.#flows.set(flow.fairnessId, flow);
    return flow;
  }

  /** The flow that holds most of the band. */
  #largest(): Flow | undefined {
    if (this.#byShare === undefined) {
      this.#byShare = new IndexedHeap();
      this.#dropsShares = this.requests / 2;
      for (const flow of this.#flows.values()) this.#place(flow, this.#byShare);
    }
    return this.#byShare.first;
  }

  /** Gives a flow its place by the share that it has now. */
  #place(flow: Flow, byShare: IndexedHeap<Flow>): void {
    // The largest share first; of equals the flow that joined first.
    const key = -this.#shareOf(flow.length, flow.bytes);
    if (flow.length === 0) byShare.remove(flow);
    else if (flow.place < 0) byShare.add(flow, key, flow.order);
    else byShare.moved(flow, key);
  }

  #forgetShares(): void {
    for (const flow of this.#byShare!.entries) flow.place = -1;
    this.#byShare = undefined;
    this.#dropsShares = 0;
  }

  /** What so much is of the band, by its tighter limit. */
  #shareOf(requests: number, bytes: number): number {
    const { maxRequests, maxBytes } = this.#limits;
    return Math.max(requests / maxRequests, bytes === 0 ? 0 : bytes / maxBytes);
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

  /** Tells the policy which flows there are. One that fails here would leave out flows for ever. */
  #follow(tell: (choice: FlowChoice, flow: Flow) => void, flow: Flow): void {
    if (this.#choice === undefined) return;
    try {
      tell(this.#choice, flow);
    } catch (error) {
      this.#choice = undefined;
      this.#failed("fairness policy", error);
    }
  }
}
