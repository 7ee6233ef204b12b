import type { QueueOutcome } from "../../../src/picker/flowcontrol/queue-outcomes.ts";
import { ceilingOf, type PlainBand, type PlainSettings } from "./plain-policies.cases.ts";
import { type ExpectedAnswer, SlowBand, type SlowTokens } from "./slow-band.cases.ts";

/** A request as the model knows it. */
export interface SlowRequest {
  readonly id: string;
  readonly priority: number;
  readonly flow: string;
  readonly bytes: number;
  readonly tokens: SlowTokens;
}

interface SlowItem extends SlowRequest {
  readonly enqueuedAt: number;
  /** Of the band that took it in. */
  readonly ttl: number;
  band: number;
}

/** What the model sees of the pool. */
export interface SlowWorld {
  now: number;
  endpoints: readonly { readonly role: string; readonly load: number }[];
  /** Requests that count at an endpoint, and what each adds to the saturation. */
  running: number;
  readonly perRequest: number;
  detector: "works" | "throws" | "nan";
}

/** How a request left, and when. */
export interface SlowEntry {
  readonly id: string;
  readonly outcome: QueueOutcome;
  readonly at: number;
}

/** What a request that was dispatched is charged with. */
interface SlowCharge {
  readonly request: SlowRequest;
  readonly band: SlowBand;
  readonly charged: number;
}

type Limits = Pick<PlainBand, "maxBytes" | "maxRequests">;

/** A queued request that leaves for another one. */
interface Leaving {
  readonly item: SlowItem;
  readonly outcome: QueueOutcome;
}

/** Milliseconds from the look at which a band was found without use to the next one. */
const IDLE = 600_000;

const PREFILL = ["prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"];
const DECODE = ["decode", "", "prefill-decode", "both", "encode-prefill-decode"];

/**
 * Flow control by the letter (scheduling 6): one list of waiting requests in the order of arrival. Every figure is worked out
 * anew from the list, each time. Every change of the pool and of its load is told at once.
 *
 * The model lets requests go as soon as there is room. Where the ceilings alternate with the looks of the engine, the answers of
 * the policy are given: the model gets each by `look`, and nothing else lets a request go.
 */
export class SlowFlowControl {
  readonly log: SlowEntry[] = [];
  /** Called after each entry, except for the request that is just entering. */
  left: (entry: SlowEntry) => void = () => {};
  waiting: SlowItem[] = [];
  undecided = new Set<string>();
  readonly #world: SlowWorld;
  #settings: PlainSettings;
  #wanted: ReadonlySet<number> = new Set();
  #bands: SlowBand[] = [];
  #poolEmpty = false;
  #poolSince = 0;
  #settling = false;
  /** Requests whose `enter` has not returned. */
  readonly entering = new Set<string>();
  /** By id, until the end of the request. */
  readonly #charges = new Map<string, SlowCharge>();
  #expected: ExpectedAnswer = { mean: 256 };
  /** No request is held back any more: the configuration in force has no flow control. */
  #letsGo = false;
  #sweepAt = Number.POSITIVE_INFINITY;
  #closed = false;

  constructor(world: SlowWorld, settings: PlainSettings) {
    this.#world = world;
    this.#settings = settings;
    this.#makeBands();
    this.poolChanged();
  }

  /** Whether the ceilings come by `look`. */
  get isDriven(): boolean {
    return this.#settings.ceilings === "reflective" && !this.#letsGo;
  }

  get bands() {
    return this.#bands.map(({ priority }, at) => {
      const items = this.waiting.filter(({ band }) => band === priority);
      const { maxRequests, maxBytes } = this.#bandSettings(priority);
      const flows = new Set(items.map(({ flow }) => flow)).size;
      const ceiling = this.#ceilings[at];
      return { priority, requests: items.length, bytes: sumOf(items), maxRequests, maxBytes, ceiling, flows };
    });
  }

  get saturation() {
    const { endpoints } = this.#world;
    if (this.#letsGo) return { prefill: undefined, decode: undefined, effective: 0 };
    const [prefill, decode] = [PREFILL, DECODE].map((roles) => {
      const stage = endpoints.filter(({ role }) => roles.includes(role));
      return stage.length === 0 ? undefined : this.#measure(stage);
    });
    if (this.#world.detector === "throws") return { prefill, decode, effective: 0 };
    const known = [prefill, decode].filter((value) => value !== undefined);
    return { prefill, decode, effective: known.length === 0 ? this.#measure(endpoints) : Math.max(...known) };
  }

  enter(request: SlowRequest): void {
    const { now } = this.#world;
    const band = this.#bandOf(request.priority);
    const settings = this.#bandSettings(band.priority);
    const room = this.#roomFor(request, band);
    if (typeof room === "string") {
      this.log.push({ id: request.id, outcome: room, at: now });
      return;
    }
    for (const { item, outcome } of room) {
      this.#remove(item);
      this.log.push({ id: item.id, outcome, at: now });
    }
    this.waiting.push({ ...request, enqueuedAt: now, ttl: settings.ttl, band: band.priority });
    band.queued(request.flow);
    this.entering.add(request.id);
    // Waiters are called when all places are right.
    for (const { item, outcome } of room) if (!this.entering.has(item.id)) this.left({ id: item.id, outcome, at: now });
    // Where the ceilings are given, the engine looks before the request has entered.
    if (this.isDriven && !this.#settling) return;
    this.settle();
    this.entering.delete(request.id);
  }

  /** The oldest request whose `enter` has returned. */
  get oldest(): string | undefined {
    return this.waiting.find(({ id }) => !this.entering.has(id))?.id;
  }

  cancel(id: string): void {
    const item = this.waiting.find((one) => one.id === id);
    if (item !== undefined) this.#leave(item, "EvictedContextCancelled");
  }

  /** The request counts at an endpoint. */
  decide(id: string): void {
    this.undecided.delete(id);
  }

  end(id: string): void {
    this.undecided.delete(id);
    const charge = this.#charges.get(id);
    this.#charges.delete(id);
    if (charge === undefined) return;
    const { request, band, charged } = charge;
    band.ended(request.flow, request.tokens, charged);
  }

  letGo(): void {
    this.#letsGo = true;
    this.settle();
  }

  /** The engine has asked for the ceilings, at this time: one request may go. @param now milliseconds */
  look(ceilings: readonly number[], now: number): void {
    if (now > this.#world.now) this.advance(now - this.#world.now);
    this.#settling = true;
    this.#dispatchOne(ceilings);
    this.#settling = false;
  }

  poolChanged(): void {
    const isEmpty = this.#world.endpoints.length === 0;
    if (isEmpty !== this.#poolEmpty) this.#poolSince = this.#world.now;
    this.#poolEmpty = isEmpty;
    this.settle();
  }

  usePriorities(wanted: ReadonlySet<number>): void {
    this.#wanted = wanted;
    for (const priority of wanted) this.#addBand(priority);
    this.#sweepLater();
    this.settle();
  }

  configure(settings: PlainSettings): void {
    this.#settings = settings;
    this.#letsGo = false;
    this.#expected = { mean: 256 };
    this.#makeBands();
    for (const item of this.waiting) {
      const band = this.#bandOf(item.priority);
      item.band = band.priority;
      band.queued(item.flow);
    }
    this.settle();
  }

  close(): void {
    this.#closed = true;
    this.#sweepAt = Number.POSITIVE_INFINITY;
    while (this.waiting.length > 0) this.#leave(this.waiting[0]!, "EvictedOther");
  }

  advance(ms: number): void {
    const end = this.#world.now + ms;
    for (;;) {
      const [first] = [...this.waiting].sort((a, b) => this.#deadline(a) - this.#deadline(b));
      const deadline = first === undefined ? Number.POSITIVE_INFINITY : this.#deadline(first);
      const next = Math.min(deadline, this.#sweepAt);
      if (next > this.#world.now && this.settle()) continue;
      if (next > end) break;
      if (deadline < this.#sweepAt) {
        this.#world.now = Math.max(this.#world.now, deadline);
        this.#leave(first!, this.#poolEmpty ? "EvictedNoEndpoints" : "EvictedTTL");
      } else {
        this.#world.now = this.#sweepAt;
        this.#sweep();
      }
    }
    this.#world.now = end;
  }

  /** Dispatches one request after the other while there is room. @returns whether there was room for one */
  settle(): boolean {
    if (this.#settling || this.#closed || this.isDriven) return false;
    this.#settling = true;
    let dispatched = 0;
    while (this.#dispatchOne(this.#ceilings)) dispatched++;
    this.#settling = false;
    return dispatched > 0;
  }

  /** The place of an item in its flow: the lowest number first, then the oldest. */
  rank({ band, enqueuedAt, ttl, bytes }: SlowItem): number {
    const { ordering } = this.#bandSettings(band);
    if (ordering === "nan") return Number.POSITIVE_INFINITY;
    return { arrival: enqueuedAt, deadline: enqueuedAt + ttl, size: bytes }[ordering];
  }

  get #ceilings(): readonly number[] {
    const { ceilings } = this.#settings;
    if (this.#letsGo) return this.#bands.map(() => Number.POSITIVE_INFINITY);
    return this.#bands.map((_, at) =>
      ceilings === "reflective" ? Number.NaN : ceilingOf(ceilings, at, this.#bands.length),
    );
  }

  #dispatchOne(ceilings: readonly number[]): boolean {
    if (this.#world.endpoints.length === 0) return false;
    const saturation = this.saturation.effective;
    for (const [at, band] of this.#bands.entries()) {
      let items = this.waiting.filter((item) => item.band === band.priority);
      if (items.length === 0) continue;
      if (!(saturation < ceilings[at]!)) continue;
      const { fairness } = this.#bandSettings(band.priority);
      if (fairness === "turns") items = items.filter(({ flow }) => flow === band.turns[0]);
      if (fairness === "tokens") items = items.filter(({ flow }) => flow === band.leastCharged);
      const best = Math.min(...items.map((item) => this.rank(item)));
      const item = items.find((one) => this.rank(one) === best)!;
      band.served(item.flow);
      this.undecided.add(item.id);
      this.#leave(item, "Dispatched");
      return true;
    }
    return false;
  }

  #leave(item: SlowItem, outcome: QueueOutcome): void {
    const band = this.#remove(item);
    if (outcome === "Dispatched")
      this.#charges.set(item.id, { request: item, band, charged: band.dispatched(item.flow, item.tokens) });
    this.#report(item, outcome);
  }

  /** @returns its band */
  #remove(item: SlowItem): SlowBand {
    this.waiting = this.waiting.filter((one) => one !== item);
    const band = this.#bands.find(({ priority }) => priority === item.band)!;
    const items = this.waiting.filter(({ band: priority }) => priority === item.band);
    if (items.length === 0) band.emptySince = this.#world.now;
    if (!items.some(({ flow }) => flow === item.flow)) band.left(item.flow);
    return band;
  }

  #report(item: SlowItem, outcome: QueueOutcome): void {
    const entry = { id: item.id, outcome, at: this.#world.now };
    this.log.push(entry);
    if (!this.entering.has(item.id)) this.left(entry);
  }

  /** @returns the requests that leave so that this one fits; an outcome when it does not fit */
  #roomFor(request: SlowRequest, band: SlowBand): readonly Leaving[] | QueueOutcome {
    if (this.#closed) return "RejectedOther";
    const limits = this.#bandSettings(band.priority);
    const inBand = this.waiting.filter((item) => item.band === band.priority);
    const fits = (leaving: readonly SlowItem[], where: readonly SlowItem[], most: Limits): boolean => {
      const staying = where.filter((item) => !leaving.includes(item));
      return staying.length < most.maxRequests && sumOf(staying) + request.bytes <= most.maxBytes;
    };
    const isRoom = (leaving: readonly SlowItem[]): boolean =>
      fits(leaving, this.waiting, this.#settings) && fits(leaving, inBand, limits);
    if (isRoom([])) return [];
    const lowest = Math.min(...this.waiting.map((item) => item.band));
    const isAbove = lowest < band.priority && fits([], inBand, limits);
    const from = isAbove ? this.#bands.find(({ priority }) => priority === lowest)! : band;
    const largest = this.#largest(from);
    if (isAbove || limits.fairness !== "one-queue")
      for (let count = 1; count <= Math.min(64, largest.length); count++) {
        const leaving = largest.slice(-count).toReversed();
        if (!isRoom(leaving)) continue;
        const own = [...inBand.filter(({ flow }) => flow === request.flow), request];
        if (!isAbove && this.#share(band, largest.slice(0, -count)) < this.#share(band, own)) break;
        const outcome = isAbove ? "EvictedPriority" : "EvictedQueuePressure";
        return leaving.map((item) => ({ item, outcome }));
      }
    return this.#world.endpoints.length === 0 ? "RejectedNoEndpoints" : "RejectedCapacity";
  }

  /** The requests of the flow that holds most of a band; of those that hold as much, the one that has waited for longest. */
  #largest(band: SlowBand): readonly SlowItem[] {
    const items = this.waiting.filter((item) => item.band === band.priority);
    if (this.#bandSettings(band.priority).fairness === "one-queue") return items;
    const flows = band.flows.map((flow) => items.filter((item) => item.flow === flow));
    const most = Math.max(...flows.map((flow) => this.#share(band, flow)));
    return flows.find((flow) => this.#share(band, flow) === most) ?? [];
  }

  #share({ priority }: SlowBand, items: readonly { readonly bytes: number }[]): number {
    const limits = [this.#bandSettings(priority), this.#settings];
    const [maxRequests, maxBytes] = [
      Math.min(...limits.map((each) => each.maxRequests)),
      Math.min(...limits.map((each) => each.maxBytes)),
    ];
    return Math.max(items.length / maxRequests, sumOf(items) === 0 ? 0 : sumOf(items) / maxBytes);
  }

  get #noEndpointTtl(): number {
    return this.#letsGo ? 0 : this.#settings.noEndpointTtl;
  }

  #deadline({ enqueuedAt, ttl }: SlowItem): number {
    return Math.max(enqueuedAt, this.#poolSince) + (this.#poolEmpty ? this.#noEndpointTtl : ttl);
  }

  /** The mean load of the endpoints, and what this process has sent. NaN where the detector has no answer. */
  #measure(endpoints: SlowWorld["endpoints"]): number {
    const { detector, running, perRequest } = this.#world;
    if (detector !== "works") return Number.NaN;
    if (endpoints.length === 0) return 1;
    const mean = endpoints.reduce((sum, { load }) => sum + load, 0) / endpoints.length;
    return mean + (running + this.undecided.size) * perRequest;
  }

  #bandSettings(priority: number): PlainBand {
    const { bands, template, negativeTemplate } = this.#settings;
    return new Map(bands).get(priority) ?? (priority < 0 ? negativeTemplate : template);
  }

  #bandOf(priority: number): SlowBand {
    const bandOf = (wanted: number) => this.#bands.find((band) => band.priority === wanted);
    return bandOf(priority) ?? bandOf(0)!;
  }

  #makeBands(): void {
    this.#bands = [];
    for (const priority of [0, ...new Map(this.#settings.bands).keys(), ...this.#wanted]) this.#addBand(priority);
  }

  #addBand(priority: number): void {
    if (this.#bands.some((band) => band.priority === priority)) return;
    // Only bands that share tokens learn from answers.
    const expected = this.#bandSettings(priority).fairness === "tokens" ? this.#expected : { mean: 0 };
    this.#bands.push(new SlowBand(priority, this.#world.now, expected));
    this.#bands.sort((a, b) => b.priority - a.priority);
  }

  #isKept({ priority }: SlowBand): boolean {
    return priority === 0 || this.#wanted.has(priority) || new Map(this.#settings.bands).has(priority);
  }

  #sweepLater(): void {
    if (this.#closed || this.#sweepAt < Number.POSITIVE_INFINITY || this.#bands.every((band) => this.#isKept(band)))
      return;
    this.#sweepAt = this.#world.now + IDLE;
  }

  #sweep(): void {
    this.#sweepAt = Number.POSITIVE_INFINITY;
    const { now } = this.#world;
    const isUsed = ({ priority }: SlowBand): boolean => this.waiting.some((item) => item.band === priority);
    this.#bands = this.#bands.filter((band) => this.#isKept(band) || isUsed(band) || now - band.emptySince < IDLE);
    this.#sweepLater();
    this.settle();
  }
}

function sumOf(items: readonly { readonly bytes: number }[]): number {
  return items.reduce((sum, { bytes }) => sum + bytes, 0);
}
