import type { Timer } from "../../base/clock/clock.ts";
import type { RecordedWait } from "../../base/inference/decision-record.ts";
import type { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { ServedTokens } from "../../base/plugin/flow-kinds.ts";
import type { Band, BandLoad, QueueLoad } from "./band.ts";
import { Bands, type BandView, type Displaced } from "./bands.ts";
import { Deadlines } from "./deadlines.ts";
import { DispatchRate } from "./dispatch-rate.ts";
import { Item, STAGE, type Waiter } from "./flow.ts";
import { NOT_YET_FINALIZED, type QueueOutcome } from "./queue-outcomes.ts";
import { Reclaim } from "./reclaim.ts";
import type { FlowRules } from "./rules.ts";
import type { FlowControlParts, FlowControlSettings } from "./settings.ts";
import { IDLE, StagedSaturation, type StageSaturation } from "./staged-saturation.ts";

/** The place of a request in flow control. */
export interface Ticket {
  /** Whether the request waits: then its waiter is called later. False: it may go on. */
  readonly waiting: boolean;
  /** Monotonic milliseconds. */
  readonly enqueuedAt: number;
  /** The wait, once it is over. */
  readonly wait: RecordedWait;
}

/** Dispatches of one cycle; then other work of the process runs. */
const MOST_PER_CYCLE = 64;
/** Milliseconds between two looks at the pool while requests wait, in case no event announces new room. */
const TICK = 20;
/** The same for policies whose ceilings alternate (scheduling 6.3). */
const ALTERNATING_TICK = 1;

const DISPATCHED = (waiter: Waiter): void => waiter.dispatched();

/** What a request has cost whose answer does not say. */
const NO_TOKENS: ServedTokens = { promptTokens: Number.NaN, completionTokens: Number.NaN };

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
  #rules: FlowRules;
  readonly #bands: Bands;
  readonly #deadlines: Deadlines;
  readonly #staged: StagedSaturation;
  readonly #rate: DispatchRate;
  #requests = 0;
  #bytes = 0;
  #arrivals = 0;
  /** Requests that were dispatched and count at no endpoint yet. */
  #undecided = 0;
  /** Requests that were dispatched and have not ended. */
  #inFlight = 0;
  readonly #reclaim: Reclaim;
  /** The saturation at the last look, which the ceilings follow. NaN, which is below no ceiling, for an empty pool. */
  #saturation = Number.NaN;
  #closed = false;
  #cycling = false;
  /** A cycle is due after the events that wait. */
  #woken = false;
  #tick: Timer | undefined;

  constructor(parts: FlowControlParts) {
    this.#parts = parts;
    this.#settings = parts.settings;
    this.#rules = parts.settings.rules;
    this.#rate = parts.rate ?? new DispatchRate();
    const { clock, settings, events } = parts;
    this.#bands = new Bands(clock, settings, events, () => this.changed());
    const failed = (error: unknown): void => events.failed("saturation detector", error);
    this.#staged = new StagedSaturation(clock, parts.pool, settings.detector, this.#rules.stages, failed);
    const poolIsEmpty = (): boolean => parts.pool().length === 0;
    const expired = (item: Item): void => {
      this.#take(item);
      this.#finish(item, this.#rules.expired(this.#deadlines.poolEmpty));
    };
    this.#deadlines = new Deadlines({ clock, poolIsEmpty, expired }, settings.noEndpointTtl, this.#rules);
    const tell = (victim: Item): void => this.#tell(victim, (waiter) => waiter.revoke?.());
    this.#reclaim = new Reclaim(clock, events, tell, () => this.changed());
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
    const band = this.#bands.of(request.priority);
    const item = new Item(waiter, this.#arrivals++, { request, receivedAt, enqueuedAt, ttl: band.settings.ttl, bytes });
    const displaced = this.#roomFor(item, band);
    if (typeof displaced === "string") {
      events.entered(request, item);
      events.enqueued(request, displaced, clock.now() - enqueuedAt);
      return this.#reject(item, displaced);
    }
    // Most requests find room and an empty queue: these need no queue and no timer.
    const isAlone = this.#requests === 0 && !this.#cycling;
    if (isAlone && this.#hasRoom(band, item)) {
      item.band = band;
      this.#go(item, clock.now());
      events.passed(request, item, item.leftAt - enqueuedAt, item.leftAt);
      item.forgetRequest();
      return item;
    }
    events.entered(request, item);
    for (const { victim, outcome } of displaced) {
      this.#take(victim);
      this.#reject(victim, outcome);
    }
    item.behind = this.#bands.requestsFrom(band.priority);
    band.add(item);
    this.#requests++;
    this.#bytes += bytes;
    this.#deadlines.add(item);
    events.enqueued(request, NOT_YET_FINALIZED, clock.now() - enqueuedAt);
    item.entering = true;
    // Their waiters may send or cancel requests: all places are right by now.
    for (const { victim } of displaced) this.#tell(victim, (waiter) => waiter.evicted(victim.rejection!));
    if (isAlone) this.#blocked();
    // Where a cycle runs, one of its waiters sends this request: that cycle sees it.
    else if (!this.#cycling) this.#cycle();
    item.entering = false;
    // A waiter that ran meanwhile may have closed flow control, or have sent a request that displaced this one.
    return item.rejection ?? item;
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

  /** The request of a dispatched ticket is over. No effect the second time. @param tokens that its answer reports */
  ended(ticket: Ticket, tokens = NO_TOKENS): void {
    const item = ticket as Item;
    this.decided(item);
    if (item.stage !== STAGE.decided) return;
    item.stage = STAGE.ended;
    this.#inFlight--;
    this.#reclaim.ended(item, this.#staged.settles);
    item.band!.ended(item, tokens);
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
    this.#bands.usePriorities(wanted);
    this.changed();
  }

  /** Puts another configuration in force. Queued requests stay, in their order of arrival, and keep their time to live. */
  configure(settings: FlowControlSettings): void {
    this.#settings = settings;
    this.#rules = settings.rules;
    this.#staged.use(settings.detector, this.#rules.stages);
    this.#bands.configure(settings);
    for (const item of this.#deadlines.byArrival()) this.#bands.of(item.priority).add(item);
    this.#deadlines.use(settings.noEndpointTtl, this.#rules);
    this.changed();
  }

  /** Lets all queued requests go, in their order: the configuration in force has no flow control. */
  letGo(): void {
    this.#staged.use(IDLE);
    this.#bands.lift();
    this.#deadlines.use(0);
    this.changed();
  }

  /** Refuses all queued requests, and further ones. */
  close(): void {
    this.#closed = true;
    for (const item of this.#deadlines.byArrival()) {
      // A waiter may have cancelled it meanwhile.
      if (item.stage !== STAGE.queued) continue;
      this.#take(item);
      this.#finish(item, "EvictedOther");
    }
    this.#tick?.cancel();
    this.#deadlines.close();
    this.#bands.close();
    this.#reclaim.close();
  }

  /** The present saturation by the formula of the detector, without what scrapes have yet to show (scheduling 5.3). */
  saturation(): StageSaturation {
    return this.#staged.measured();
  }

  /**
   * The saturation by which the next request is dispatched or held: what was sent counts at once. A detector that fails holds
   * nothing back.
   */
  expected(now = this.#parts.clock.now()): number {
    return this.#staged.expected(this.#undecided, now);
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
    return this.#bands.list.map(({ load }) => load);
  }

  /** The bands, highest priority first. Looks at every request, and asks the usage limit policy. */
  bands(): readonly BandView[] {
    // A look must not move the ceilings of a policy that counts its calls.
    if (!this.#bands.alternate) this.#bands.limit(this.expected());
    return this.#bands.views();
  }

  /** @returns the requests that leave so that this one fits, usually none; an outcome when it does not fit */
  #roomFor(
    item: Item,
    band: Band,
  ): readonly Displaced[] | "RejectedOther" | "RejectedNoEndpoints" | "RejectedCapacity" {
    if (this.#closed) return "RejectedOther";
    const displaced = this.#bands.displacedBy(item, band, this.load());
    if (displaced !== undefined) return displaced;
    return this.#rules.full(this.#deadlines.lookAtPool());
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
    // That of the look which found no room: another one could take a turn of a policy that counts its calls.
    const saturation = this.#saturation;
    for (const [at, band] of this.#bands.list.entries()) {
      if (!this.#reclaim.mayRevokeFor(band.priority)) return;
      const ceiling = this.#bands.ceiling(at);
      // A ceiling of 0 lets nothing through, whatever is revoked.
      if (ceiling <= 0 || !(saturation >= ceiling) || band.requests === 0) continue;
      const demand = { priority: band.priority, saturation, ceiling, inFlight: Math.max(1, this.#inFlight) };
      this.#reclaim.revoke(demand, this.#staged.settles);
      return;
    }
  }

  /** @returns whether a request was dispatched */
  #dispatchNext(): boolean {
    if (this.#requests === 0) return false;
    const now = this.#parts.clock.now();
    this.#look(now);
    const bands = this.#bands.list;
    for (let at = 0; at < bands.length; at++) {
      const band = bands[at]!;
      if (band.requests === 0 || !this.#isOpen(at)) continue;
      const item = band.take(now, this.#fill(at));
      if (item === undefined) continue;
      item.saturation = this.#saturation;
      item.ceiling = this.#bands.ceiling(at);
      this.#take(item, now);
      this.#go(item, now);
      this.#report(item, "Dispatched");
      this.#tell(item, DISPATCHED);
      return true;
    }
    return false;
  }

  #hasRoom(band: Band, { fairnessId, enqueuedAt }: Item): boolean {
    this.#look(enqueuedAt);
    const at = this.#bands.list.indexOf(band);
    return this.#isOpen(at) && !band.holds(fairnessId, this.#fill(at));
  }

  #fill(at: number): number {
    return this.#saturation / this.#bands.ceiling(at);
  }

  /** Whether the band at this place of the list may dispatch, as of the last look. */
  #isOpen(at: number): boolean {
    // The comparison with NaN is false: a detector that answers NaN counts as saturated.
    return this.#saturation < this.#bands.ceiling(at);
  }

  /** Reads the saturation and writes the ceilings. */
  #look(now: number): void {
    if (this.#deadlines.lookAtPool()) {
      this.#saturation = Number.NaN;
      return;
    }
    this.#saturation = this.expected(now);
    this.#bands.limit(this.#saturation);
  }

  /** A request is dispatched, perhaps without having been queued. */
  #go(item: Item, now: number): void {
    item.stage = STAGE.dispatched;
    item.leftAt = now;
    this.#undecided++;
    this.#inFlight++;
    this.#reclaim.dispatched(item);
    item.band!.dispatched(item, now);
    this.#rate.count(now);
  }

  /** Removes a request from its queue. */
  #take(item: Item, now = this.#parts.clock.now()): void {
    item.band!.remove(item, now);
    this.#deadlines.leaves(item);
    this.#requests--;
    this.#bytes -= item.bytes;
  }

  #finish(item: Item, outcome: Exclude<QueueOutcome, "Dispatched">): void {
    const rejection = this.#reject(item, outcome);
    this.#tell(item, (waiter) => waiter.evicted(rejection));
  }

  /** Calls the waiter of a request. A waiter that throws stops no other request. */
  #tell(item: Item, call: (waiter: Waiter) => void): void {
    // Whoever sent it reads its fate from the result of `enter`.
    if (item.entering) return;
    try {
      call(item.waiter);
    } catch (error) {
      this.#parts.events.failed("waiter", error);
    }
  }

  #reject(item: Item, outcome: Exclude<QueueOutcome, "Dispatched">): Rejection {
    item.stage = STAGE.ended;
    item.leftAt = this.#parts.clock.now();
    this.#report(item, outcome);
    const before = this.#bands.requestsFrom(item.priority);
    const rejection = this.#rules.rejection(
      outcome,
      this.#closed ? undefined : this.#rate.retryAfter(before, item.leftAt),
    );
    item.rejection = rejection;
    return rejection;
  }

  #report(item: Item, outcome: QueueOutcome): void {
    this.#parts.events.left(item.request, item, outcome, item.leftAt - item.enqueuedAt);
    item.forgetRequest();
  }

  #lookLater(): void {
    if (this.#requests === 0 || this.#tick !== undefined || this.#closed) return;
    const ms = this.#bands.alternate ? ALTERNATING_TICK : TICK;
    this.#tick = this.#parts.clock.after(
      ms,
      () => {
        this.#tick = undefined;
        this.#cycle();
      },
      true,
    );
  }
}
