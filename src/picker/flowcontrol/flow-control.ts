import { type Clock, expireAfter, type Timer } from "../../base/clock/clock.ts";
import type { RecordedWait } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { SaturationDetector, ServedTokens, UsageLimitPolicy } from "../../base/plugin/flow-kinds.ts";
import { Band, type BandSettings, type FlowView, Item, STAGE, type Waiter } from "./band.ts";
import { type HeapOrder, IndexedHeap } from "./indexed-heap.ts";
import { NOT_YET_FINALIZED, type QueueOutcome, rejectionOf } from "./queue-outcomes.ts";
import { Reclaim, type ReclaimEvents } from "./reclaim.ts";
import { type Stages, stagesOf } from "./stages.ts";

/** The configuration of flow control (scheduling 4.2), with its policies made. */
export interface FlowControlSettings {
  /** Limits over all bands; Infinity = no limit. */
  readonly maxBytes: number;
  readonly maxRequests: number;
  /** Milliseconds that a request may wait while the pool has no endpoint; Infinity = any time. */
  readonly noEndpointTtl: number;
  /** The configured bands, by priority. */
  readonly bands: ReadonlyMap<number, BandSettings>;
  /** For priorities of objectives without a band of their own: from 0 up, and below 0. */
  readonly template: BandSettings;
  readonly negativeTemplate: BandSettings;
  readonly usageLimit: UsageLimitPolicy;
  readonly detector: SaturationDetector;
  /** Whether sheddable requests in flight end when requests of higher priority wait (`enableEviction`); default false. */
  readonly eviction?: boolean;
}

/** The labels of a request in metrics. */
export interface FlowLabels {
  readonly fairnessId: string;
  /** The priority of the request itself, also where another band holds it. */
  readonly priority: number;
  readonly model: string;
  readonly targetModel: string;
}

/** What metrics and logs learn. Times are in milliseconds. All calls for one request get the same `flow`. */
export interface FlowControlEvents extends ReclaimEvents {
  /** A request has entered. `left` follows, once. */
  entered(flow: FlowLabels, bytes: number): void;
  /** A request has left. @param waited since it entered */
  left(flow: FlowLabels, bytes: number, outcome: QueueOutcome, waited: number): void;
  /** The capacity check and the insertion took `took`. */
  enqueued(flow: FlowLabels, outcome: QueueOutcome | typeof NOT_YET_FINALIZED, took: number): void;
  cycled(took: number): void;
  /** No band and no objective has this priority: band 0 holds the request. Called for each such request. */
  strangePriority(priority: number): void;
  /** A policy, the detector or a waiter failed; flow control goes on without its answer. */
  failed(policy: string, error: unknown): void;
}

export interface FlowControlParts {
  readonly clock: Clock;
  /** All endpoints that may serve: the same array until one comes or goes. */
  readonly pool: () => readonly Endpoint[];
  readonly settings: FlowControlSettings;
  readonly events: FlowControlEvents;
}

/** The saturation of each stage that has endpoints, and the one that counts. */
export interface StageSaturation {
  readonly prefill: number | undefined;
  readonly decode: number | undefined;
  readonly effective: number;
}

/** The place of a request in flow control. */
export interface Ticket {
  /** Whether the request waits: then its waiter is called later. False: it may go on. */
  readonly waiting: boolean;
  /** Monotonic milliseconds. */
  readonly enqueuedAt: number;
  /** The wait, once it is over. */
  readonly wait: RecordedWait;
}

/** The queued requests of a band and of all bands, and their limits; Infinity = no limit. */
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

/** A band as the debug page shows it. */
export interface BandView extends BandLoad {
  readonly ceiling: number;
  /** Fairness IDs with queued requests. */
  readonly flows: number;
  /** The flows with the most requests. */
  readonly longest: readonly FlowView[];
}

/** Dispatches of one cycle; then other work of the process runs. */
const MOST_PER_CYCLE = 64;
/** Milliseconds between two looks at the pool while requests wait, in case no event announces new room. */
const TICK = 20;
/** The same for policies whose ceilings alternate (scheduling 6.3). */
const ALTERNATING_TICK = 1;
/** Milliseconds after which the empty band of a priority that no objective has any more is removed. */
const BAND_IDLE = 600_000;
/** Milliseconds over which the rate of dispatches is smoothed. */
const RATE_WINDOW = 10_000;
/** Dispatches per millisecond below which the rate says nothing: one a minute. */
const LEAST_RATE = 1 / 60_000;
/** The most bands, configured or by template. Requests of further priorities wait in band 0, and the log names them. */
const MAX_BANDS = 1024;
/** Milliseconds until a detector that does not say shows that a request has ended (scheduling 6.9). */
const SETTLES = 500;
/** Flows of a band that the debug page names. */
const SHOWN_FLOWS = 16;

const IDLE: SaturationDetector = { saturation: () => 0 };
const NO_LIMIT: UsageLimitPolicy = { limit: (_, __, ceilings) => void ceilings.fill(Number.POSITIVE_INFINITY) };

const BY_DEADLINE: HeapOrder<Item> = {
  before: (a, b) => a.deadline < b.deadline || (a.deadline === b.deadline && a.order < b.order),
  place: (item) => item.deadlinePlace,
  setPlace: (item, place) => {
    item.deadlinePlace = place;
  },
};

/**
 * Holds requests until the pool has room for them, and decides which one goes next (scheduling 6). Single-threaded: every
 * method takes effect before it returns. One request leaves at a time, and the saturation is read again before the next one, so
 * that a burst exceeds no ceiling by more than one request.
 *
 * A request that leaves has no endpoint yet: candidates, producers and scorers see the state at that moment (late binding).
 */
export class FlowControl {
  readonly #parts: FlowControlParts;
  #settings: FlowControlSettings;
  /** Highest priority first. */
  #bands: Band[] = [];
  readonly #byPriority = new Map<number, Band>();
  /** The priorities in the order of `#bands`, and their ceilings. */
  #priorities: number[] = [];
  #ceilings: number[] = [];
  /** The priorities that objectives have. */
  #wanted: ReadonlySet<number> = new Set();
  readonly #deadlines = new IndexedHeap(BY_DEADLINE);
  #requests = 0;
  #bytes = 0;
  #arrivals = 0;
  /** Requests that were dispatched and count at no endpoint yet. */
  #undecided = 0;
  /** Requests that were dispatched and have not ended. */
  #inFlight = 0;
  readonly #reclaim: Reclaim;
  #poolEmpty = false;
  /** Monotonic milliseconds of the last change of `#poolEmpty`. */
  #poolSince: number;
  #stagesFor: readonly Endpoint[] | undefined;
  #stages: Stages = { prefill: [], decode: [] };
  #closed = false;
  #cycling = false;
  /** The request whose `enter` has not returned: the caller reads its fate from the result, so its waiter is not called. */
  #entering: Item | undefined;
  /** Dispatches per millisecond, smoothed, at `#ratedAt`. */
  #rate = 0;
  #ratedAt = 0;
  /** A cycle is due after the events that wait. */
  #woken = false;
  #tick: Timer | undefined;
  #expiry: Timer | undefined;
  #expiryAt = Number.POSITIVE_INFINITY;
  #sweep: Timer | undefined;

  constructor(parts: FlowControlParts) {
    this.#parts = parts;
    this.#settings = parts.settings;
    this.#poolSince = parts.clock.now();
    const tell = (victim: Item): void => this.#tell(victim, (waiter) => waiter.revoke?.());
    this.#reclaim = new Reclaim(parts.clock, parts.events, tell, () => this.changed());
    this.#makeBands();
  }

  /** Queued requests. */
  get requests(): number {
    return this.#requests;
  }

  /** Bytes of the bodies of queued requests. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Requests that were dispatched and count at no endpoint yet. */
  get undecided(): number {
    return this.#undecided;
  }

  /**
   * Takes a request in.
   * @param bytes of its body
   * @param receivedAt monotonic milliseconds at which its headers arrived
   * @returns a ticket, to be given back with `decided`, `cancel` and `ended`; a rejection when there is no room
   */
  enter(request: InferenceRequest, bytes: number, receivedAt: number, waiter: Waiter): Ticket | Rejection {
    const { clock, events } = this.#parts;
    const enqueuedAt = clock.now();
    const band = this.#bandOf(request.priority);
    const item = new Item(waiter, this.#arrivals++, { request, receivedAt, enqueuedAt, ttl: band.settings.ttl, bytes });
    events.entered(request, bytes);
    const refusal = this.#refusal(band, bytes);
    if (refusal !== undefined) {
      events.enqueued(request, refusal, clock.now() - enqueuedAt);
      return this.#reject(item, refusal);
    }
    // Most requests find room and an empty queue: these need no queue and no timer.
    const isAlone = this.#requests === 0 && !this.#cycling;
    if (isAlone && this.#hasRoom(band)) {
      item.band = band;
      const took = clock.now() - enqueuedAt;
      events.enqueued(request, NOT_YET_FINALIZED, took);
      events.cycled(took);
      this.#go(item);
      return item;
    }
    for (const other of this.#bands) if (other.priority >= band.priority) item.behind += other.requests;
    band.add(item);
    this.#requests++;
    this.#bytes += bytes;
    this.#watchDeadline(item);
    events.enqueued(request, NOT_YET_FINALIZED, clock.now() - enqueuedAt);
    if (isAlone) this.#blocked();
    // Where a cycle runs, one of its waiters sends this request: that cycle sees it.
    if (isAlone || this.#cycling) return item;
    this.#entering = item;
    try {
      this.#cycle();
    } finally {
      this.#entering = undefined;
    }
    // A waiter that ran meanwhile may have closed flow control.
    return item.stage === STAGE.ended ? rejectionOf("EvictedOther") : item;
  }

  /** The request of a dispatched ticket counts at an endpoint, or was refused. No effect the second time. */
  decided(ticket: Ticket): void {
    const item = ticket as Item;
    if (item.stage !== STAGE.dispatched) return;
    item.stage = STAGE.decided;
    this.#undecided--;
  }

  /** The client of the request has left. No effect once the request was dispatched. */
  cancel(ticket: Ticket): void {
    const item = ticket as Item;
    if (item.stage !== STAGE.queued) return;
    this.#take(item);
    this.#finish(item, "EvictedContextCancelled");
  }

  /** The request of a dispatched ticket is over. No effect the second time. */
  ended(ticket: Ticket, tokens: ServedTokens): void {
    const item = ticket as Item;
    this.decided(item);
    if (item.stage !== STAGE.decided) return;
    item.stage = STAGE.ended;
    this.#inFlight--;
    this.#reclaim.ended(item, this.#settles());
    item.band!.ended(item, tokens, this.#parts.clock.now());
    this.changed();
  }

  /** Endpoints came, went, were scraped or got room. Runs per request, so it costs nothing while no request waits. */
  changed(): void {
    if (this.#requests === 0 || this.#woken || this.#closed) return;
    this.#woken = true;
    this.#parts.clock.soon(() => {
      this.#woken = false;
      this.#cycle();
    });
  }

  /** Names the priorities that objectives have: each gets a band (scheduling 6.1). */
  usePriorities(wanted: ReadonlySet<number>): void {
    this.#wanted = wanted;
    for (const priority of wanted) this.#bandFor(priority);
    this.#sweepLater();
    this.changed();
  }

  /** Puts another configuration in force. Queued requests stay, in their order of arrival, and keep their time to live. */
  configure(settings: FlowControlSettings): void {
    const items = [...this.#deadlines.entries].sort((a, b) => a.order - b.order);
    this.#settings = settings;
    this.#makeBands();
    for (const item of items) this.#bandOf(item.request.priority).add(item);
    for (const item of items) this.#deadline(item);
    this.#deadlines.rebuild();
    this.#armExpiry();
    this.changed();
  }

  /** Lets all queued requests go, in their order: the configuration in force has no flow control. */
  letGo(): void {
    this.#settings = { ...this.#settings, noEndpointTtl: 0, usageLimit: NO_LIMIT, detector: IDLE };
    for (const item of this.#deadlines.entries) this.#deadline(item);
    this.#deadlines.rebuild();
    this.#armExpiry();
    this.changed();
  }

  /** Refuses all queued requests, and further ones. */
  close(): void {
    this.#closed = true;
    for (const item of [...this.#deadlines.entries].sort((a, b) => a.order - b.order)) {
      if (item.stage !== STAGE.queued) continue;
      this.#take(item);
      this.#finish(item, "EvictedOther");
    }
    for (const timer of [this.#tick, this.#expiry, this.#sweep]) timer?.cancel();
    this.#reclaim.close();
  }

  /** The present saturation by the formula of the detector, without what scrapes have yet to show (scheduling 5.3). */
  saturation(): StageSaturation {
    const { detector } = this.#settings;
    const now = this.#parts.clock.now();
    return this.#saturationBy((endpoints) => detector.saturation(endpoints, now));
  }

  /** The saturation by which the next request is dispatched or held: what was sent counts at once. */
  expected(): number {
    return this.#expected();
  }

  /** The load of all bands together. */
  load(): QueueLoad {
    const { maxRequests, maxBytes } = this.#settings;
    return { requests: this.#requests, bytes: this.#bytes, maxRequests, maxBytes };
  }

  /** The saturation that revoked requests were to give back at the last decision, and what of it may not show yet. */
  reclaim(): { readonly target: number; readonly pending: number } {
    const { target, pending } = this.#reclaim;
    return { target, pending };
  }

  /** The load of each band, highest priority first. */
  loads(): readonly BandLoad[] {
    return this.#bands.map(({ priority, requests, bytes, settings: { maxRequests, maxBytes } }) => ({
      ...{ priority, requests, bytes, maxRequests, maxBytes },
    }));
  }

  /** The bands, highest priority first. Looks at every request, and asks the usage limit policy. */
  bands(): readonly BandView[] {
    // A look must not move the ceilings of a policy that counts its calls.
    if (this.#settings.usageLimit.alternates !== true) this.#limit(this.#expected());
    const now = this.#parts.clock.now();
    return this.loads().map((load, at) => ({
      ...load,
      ceiling: this.#ceilings[at]!,
      ...this.#bands[at]!.flowsNow(SHOWN_FLOWS, now),
    }));
  }

  #refusal(band: Band, bytes: number): "RejectedOther" | "RejectedNoEndpoints" | "RejectedCapacity" | undefined {
    if (this.#closed) return "RejectedOther";
    const { maxBytes, maxRequests } = this.#settings;
    if (this.#requests + 1 <= maxRequests && this.#bytes + bytes <= maxBytes && band.fits(bytes)) return undefined;
    this.#lookAtPool();
    return this.#poolEmpty ? "RejectedNoEndpoints" : "RejectedCapacity";
  }

  /** Dispatches while there is room. */
  #cycle(): void {
    if (this.#closed) return;
    this.#cycling = true;
    const started = this.#parts.clock.now();
    let dispatched = 0;
    try {
      while (dispatched < MOST_PER_CYCLE && this.#dispatchNext()) dispatched++;
    } finally {
      this.#cycling = false;
    }
    this.#parts.events.cycled(this.#parts.clock.now() - started);
    if (dispatched === MOST_PER_CYCLE) this.changed();
    else this.#blocked();
  }

  /** No request that waits may go now. */
  #blocked(): void {
    if (this.#settings.eviction && this.#requests > 0) this.#makeRoom();
    this.#lookLater();
  }

  /** Revokes requests in flight for the highest band that waits above its ceiling, if there are any below it. */
  #makeRoom(): void {
    const saturation = this.#present();
    for (const [at, band] of this.#bands.entries()) {
      if (!this.#reclaim.mayRevokeFor(band.priority)) return;
      const ceiling = this.#ceilings[at]!;
      // A ceiling of 0 lets nothing through, whatever is revoked.
      if (ceiling <= 0 || !(saturation >= ceiling) || band.requests === 0) continue;
      const demand = { priority: band.priority, saturation, ceiling, inFlight: Math.max(1, this.#inFlight) };
      this.#reclaim.revoke(demand, this.#settles());
      return;
    }
  }

  /** Milliseconds until the detector shows that a request has ended. */
  #settles(): number {
    return this.#settings.detector.settles ?? SETTLES;
  }

  /** @returns whether a request was dispatched */
  #dispatchNext(): boolean {
    if (this.#requests === 0) return false;
    const saturation = this.#present();
    for (const [at, band] of this.#bands.entries()) {
      // The comparison with NaN is false: a detector that answers NaN counts as saturated.
      if (band.requests === 0 || !(saturation < this.#ceilings[at]!)) continue;
      const item = band.take(this.#parts.clock.now())!;
      item.saturation = saturation;
      item.ceiling = this.#ceilings[at]!;
      this.#dispatch(item);
      return true;
    }
    return false;
  }

  #hasRoom(band: Band): boolean {
    return this.#present() < this.#ceilings[this.#bands.indexOf(band)]!;
  }

  /** Reads the saturation and writes the ceilings. NaN, which is below no ceiling, for an empty pool. */
  #present(): number {
    this.#lookAtPool();
    if (this.#poolEmpty) return Number.NaN;
    const saturation = this.#expected();
    this.#limit(saturation);
    return saturation;
  }

  #dispatch(item: Item): void {
    this.#take(item);
    this.#go(item);
    this.#tell(item, (waiter) => waiter.dispatched());
  }

  #go(item: Item): void {
    item.stage = STAGE.dispatched;
    this.#undecided++;
    this.#inFlight++;
    this.#reclaim.dispatched(item);
    item.band!.dispatched(item);
    this.#report(item, "Dispatched");
    this.#rate = this.#rateAt(item.leftAt) + 1 / RATE_WINDOW;
    this.#ratedAt = item.leftAt;
  }

  #rateAt(now: number): number {
    return this.#rate * Math.exp((this.#ratedAt - now) / RATE_WINDOW);
  }

  /** Seconds until a request of this priority that comes now would probably leave, 1 to 60; undefined while none leaves. */
  #retryAfter(priority: number, now: number): number | undefined {
    let before = 1;
    for (const band of this.#bands) if (band.priority >= priority) before += band.requests;
    const rate = this.#rateAt(now);
    return rate < LEAST_RATE ? undefined : Math.min(60, Math.max(1, Math.ceil(before / rate / 1000)));
  }

  /** Saturation as it will be when scrapes show all that was sent. A detector that fails holds nothing back. */
  #expected(): number {
    const { detector } = this.#settings;
    const now = this.#parts.clock.now();
    const further = this.#undecided;
    try {
      return this.#saturationBy((endpoints) =>
        detector.expected === undefined
          ? detector.saturation(endpoints, now)
          : detector.expected(endpoints, now, further),
      ).effective;
    } catch (error) {
      this.#parts.events.failed("saturation detector", error);
      return 0;
    }
  }

  /** The saturation of each stage; the higher one counts. Without any stage the whole pool counts (scheduling 6.5). */
  #saturationBy(measure: (endpoints: readonly Endpoint[]) => number): StageSaturation {
    const pool = this.#parts.pool();
    if (pool !== this.#stagesFor) {
      this.#stagesFor = pool;
      this.#stages = stagesOf(pool);
    }
    const { prefill, decode } = this.#stages;
    const first = prefill.length === 0 ? undefined : measure(prefill);
    const second = decode.length === 0 ? undefined : measure(decode);
    if (first === undefined && second === undefined)
      return { prefill: undefined, decode: undefined, effective: measure(pool) };
    return { prefill: first, decode: second, effective: Math.max(first ?? 0, second ?? 0) };
  }

  #limit(saturation: number): void {
    this.#ceilings.fill(1);
    try {
      this.#settings.usageLimit.limit(saturation, this.#priorities, this.#ceilings);
      const isNumber = (ceiling: unknown): boolean => typeof ceiling === "number" && !Number.isNaN(ceiling);
      if (this.#ceilings.length !== this.#bands.length || !this.#ceilings.every(isNumber))
        throw new TypeError("the policy wrote no number for each band");
    } catch (error) {
      this.#parts.events.failed("usage limit policy", error);
      this.#ceilings = this.#bands.map(() => 1);
    }
  }

  /** Notices that the pool became empty or got its first endpoint: then another time to live counts, from now on. */
  #lookAtPool(): void {
    const isEmpty = this.#parts.pool().length === 0;
    if (isEmpty === this.#poolEmpty) return;
    this.#poolEmpty = isEmpty;
    this.#poolSince = this.#parts.clock.now();
    for (const item of this.#deadlines.entries) this.#deadline(item);
    this.#deadlines.rebuild();
    this.#armExpiry();
  }

  #deadline(item: Item): void {
    const ttl = this.#poolEmpty ? this.#settings.noEndpointTtl : item.ttl;
    item.deadline = Math.max(item.enqueuedAt, this.#poolSince) + ttl;
  }

  #watchDeadline(item: Item): void {
    this.#deadline(item);
    this.#deadlines.add(item);
    this.#armExpiry();
  }

  /** Arms the timer for the first deadline. A timer that is armed for an earlier time stays: it arms the next one. */
  #armExpiry(): void {
    const first = this.#deadlines.first?.deadline ?? Number.POSITIVE_INFINITY;
    if (first >= this.#expiryAt || this.#closed) return;
    this.#expiry?.cancel();
    this.#expiryAt = first;
    const { clock } = this.#parts;
    this.#expiry = expireAfter(clock, first - clock.now(), () => this.#expire(), true);
  }

  #expire(): void {
    this.#expiryAt = Number.POSITIVE_INFINITY;
    this.#lookAtPool();
    const now = this.#parts.clock.now();
    for (;;) {
      const first = this.#deadlines.first;
      if (first === undefined || first.deadline > now) break;
      this.#take(first);
      this.#finish(first, this.#poolEmpty ? "EvictedNoEndpoints" : "EvictedTTL");
    }
    this.#armExpiry();
  }

  /** Removes a request from its queue. */
  #take(item: Item): void {
    item.band!.remove(item, this.#parts.clock.now());
    this.#deadlines.remove(item);
    this.#requests--;
    this.#bytes -= item.bytes;
  }

  #finish(item: Item, outcome: Exclude<QueueOutcome, "Dispatched">): void {
    const rejection = this.#reject(item, outcome);
    this.#tell(item, (waiter) => waiter.evicted(rejection));
  }

  /** Calls the waiter of a request. A waiter that throws stops no other request. */
  #tell(item: Item, call: (waiter: Waiter) => void): void {
    if (item === this.#entering) return;
    try {
      call(item.waiter);
    } catch (error) {
      this.#parts.events.failed("waiter", error);
    }
  }

  #reject(item: Item, outcome: Exclude<QueueOutcome, "Dispatched">): Rejection {
    item.stage = STAGE.ended;
    const { priority } = item.request;
    this.#report(item, outcome);
    return rejectionOf(outcome, this.#closed ? undefined : this.#retryAfter(priority, item.leftAt));
  }

  #report(item: Item, outcome: QueueOutcome): void {
    const { clock, events } = this.#parts;
    item.leftAt = clock.now();
    events.left(item.request, item.bytes, outcome, item.leftAt - item.enqueuedAt);
    item.forgetRequest();
  }

  #lookLater(): void {
    if (this.#requests === 0 || this.#tick !== undefined || this.#closed) return;
    const ms = this.#settings.usageLimit.alternates === true ? ALTERNATING_TICK : TICK;
    this.#tick = this.#parts.clock.after(
      ms,
      () => {
        this.#tick = undefined;
        this.#cycle();
      },
      true,
    );
  }

  #makeBands(): void {
    this.#bands = [];
    this.#byPriority.clear();
    this.#bandFor(0);
    for (const priority of this.#settings.bands.keys()) this.#bandFor(priority);
    for (const priority of this.#wanted) this.#bandFor(priority);
  }

  /** The band of a request: that of its priority, or band 0 where no configuration and no objective names the priority. */
  #bandOf(priority: number): Band {
    const band = this.#byPriority.get(priority);
    if (band !== undefined) return band;
    this.#parts.events.strangePriority(priority);
    return this.#byPriority.get(0)!;
  }

  #bandFor(priority: number): void {
    if (this.#byPriority.has(priority) || this.#bands.length >= MAX_BANDS) return;
    const { bands, template, negativeTemplate } = this.#settings;
    const settings = bands.get(priority) ?? (priority < 0 ? negativeTemplate : template);
    const { clock, events } = this.#parts;
    const band = new Band(priority, settings, clock.now(), (policy, error) => events.failed(policy, error));
    this.#byPriority.set(priority, band);
    this.#bands.push(band);
    this.#bands.sort((a, b) => b.priority - a.priority);
    this.#renumber();
  }

  #renumber(): void {
    this.#priorities = this.#bands.map(({ priority }) => priority);
    this.#ceilings = this.#bands.map(() => 1);
  }

  #isKept(band: Band): boolean {
    return band.priority === 0 || this.#settings.bands.has(band.priority) || this.#wanted.has(band.priority);
  }

  /** Removes the bands of former priorities once they have been empty for long. */
  #sweepLater(): void {
    if (this.#sweep !== undefined || this.#closed || this.#bands.every((band) => this.#isKept(band))) return;
    this.#sweep = this.#parts.clock.after(
      BAND_IDLE,
      () => {
        this.#sweep = undefined;
        const now = this.#parts.clock.now();
        const isOver = (band: Band): boolean =>
          !this.#isKept(band) && band.requests === 0 && now - band.emptySince >= BAND_IDLE;
        for (const band of this.#bands.filter(isOver)) this.#byPriority.delete(band.priority);
        this.#bands = this.#bands.filter((band) => !isOver(band));
        this.#renumber();
        this.#sweepLater();
        this.changed();
      },
      true,
    );
  }
}
