import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { UsageLimitPolicy } from "../../base/plugin/flow-kinds.ts";
import { Band, type BandLoad, type FlowView, type QueueLoad } from "./band.ts";
import type { FlowControlEvents } from "./events.ts";
import type { Item, Room } from "./flow.ts";
import type { FlowControlSettings } from "./settings.ts";

/** A band as the debug page shows it. */
export interface BandView extends BandLoad {
  readonly ceiling: number;
  /** Fairness IDs with queued requests. */
  readonly flows: number;
  /** The flows with the most requests. */
  readonly longest: readonly FlowView[];
}

/** A queued request that leaves for another one. */
export interface Displaced {
  readonly victim: Item;
  readonly outcome: "EvictedQueuePressure" | "EvictedPriority";
}

/** Milliseconds after which the empty band of a priority that no objective has any more is removed. */
const IDLE = 600_000;
/** The most bands, configured or by template. */
const MAX_BANDS = 1024;
/** Flows of a band that the debug page names. */
const SHOWN_FLOWS = 16;
const NO_LIMIT: UsageLimitPolicy = { limit: (_, __, ceilings) => void ceilings.fill(Number.POSITIVE_INFINITY) };
const NONE: readonly Displaced[] = [];
const FITS: Room = { requests: 0, bytes: 0 };

/** The bands of all priorities (scheduling 6.1), and the ceiling of each. */
export class Bands {
  readonly #clock: Clock;
  readonly #events: FlowControlEvents;
  /** Called when bands have left the list: the ceilings of the others may have changed. */
  readonly #swept: () => void;
  #settings: FlowControlSettings;
  /** Highest priority first. */
  #list: Band[] = [];
  readonly #byPriority = new Map<number, Band>();
  /** The priorities in the order of `#list`, and their ceilings. */
  #priorities: number[] = [];
  #ceilings: number[] = [];
  /** The priorities that objectives have. */
  #wanted: ReadonlySet<number> = new Set();
  #sweep: Timer | undefined;
  #closed = false;

  constructor(clock: Clock, settings: FlowControlSettings, events: FlowControlEvents, swept: () => void) {
    this.#clock = clock;
    this.#events = events;
    this.#swept = swept;
    this.#settings = settings;
    this.#make();
  }

  /** Highest priority first. */
  get list(): readonly Band[] {
    return this.#list;
  }

  /** The ceiling of the band at this place of the list, as written last. */
  ceiling(at: number): number {
    return this.#ceilings[at]!;
  }

  /**
   * The band of a request: that of its priority. Where no configuration and no objective names the priority, it is band 0, or one
   * that is made on demand. Where there are too many bands, it is the next lower one, so that the order of priorities holds.
   */
  of(priority: number): Band {
    const band = this.#byPriority.get(priority);
    if (band !== undefined) return band;
    if (this.#settings.rules.bandsOnDemand) {
      this.#add(priority);
      this.#sweepLater();
      const added = this.#byPriority.get(priority);
      if (added !== undefined) return added;
    }
    const other = this.#isNamed(priority) ? this.#nearest(priority) : this.#byPriority.get(0)!;
    this.#events.strangePriority(priority, other.priority);
    return other;
  }

  /** Makes all bands anew, without requests. */
  configure(settings: FlowControlSettings): void {
    this.#settings = settings;
    this.#make();
  }

  /** Lifts all ceilings; the bands stay. */
  lift(): void {
    this.#settings = { ...this.#settings, usageLimit: NO_LIMIT };
  }

  /** Whether the ceilings change with the number of looks. */
  get alternate(): boolean {
    return this.#settings.usageLimit.alternates === true;
  }

  /** Names the priorities that objectives have: each gets a band. */
  usePriorities(wanted: ReadonlySet<number>): void {
    this.#wanted = wanted;
    for (const priority of wanted) this.#add(priority);
    this.#sweepLater();
  }

  /** Asks the usage limit policy for the ceilings. Where it fails, each is 1. @param saturation of the pool */
  limit(saturation: number): void {
    const ceilings = this.#ceilings;
    for (let at = 0; at < ceilings.length; at++) ceilings[at] = 1;
    try {
      this.#settings.usageLimit.limit(saturation, this.#priorities, ceilings);
      let areNumbers = ceilings.length === this.#list.length;
      for (let at = 0; at < ceilings.length; at++)
        areNumbers &&= typeof ceilings[at] === "number" && !Number.isNaN(ceilings[at]);
      if (!areNumbers) throw new TypeError("the policy did not write a number for each band");
    } catch (error) {
      this.#events.failed("usage limit policy", error);
      this.#ceilings = this.#list.map(() => 1);
    }
  }

  /** Queued requests of the bands of this priority and above. */
  requestsFrom(priority: number): number {
    let requests = 0;
    for (const band of this.#list) if (band.priority >= priority) requests += band.requests;
    return requests;
  }

  /**
   * Where one more request does not fit, others may have to leave (docs/adr/0023). In a full band they belong to the flow that
   * holds most of it. For the limits over all bands they belong to the lowest band, if it is below that of the newcomer.
   * @param all the load of all bands
   * @returns the requests that leave, usually none; undefined = the newcomer does not fit
   */
  displacedBy(newcomer: Item, band: Band, all: QueueLoad): readonly Displaced[] | undefined {
    const over = excess(all, newcomer.bytes);
    const overBand = excess(band.load, newcomer.bytes);
    if (over === FITS && overBand === FITS) return NONE;
    const lowest = this.#list.findLast(({ requests }) => requests > 0);
    const isAbove = lowest !== undefined && lowest.priority < band.priority && overBand === FITS;
    const outcome = isAbove ? "EvictedPriority" : "EvictedQueuePressure";
    if (!this.#settings.rules.displaces) return undefined;
    const victims = isAbove
      ? lowest.displacedFromAbove(over)
      : band.displacedBy(newcomer, {
          requests: Math.max(over.requests, overBand.requests),
          bytes: Math.max(over.bytes, overBand.bytes),
        });
    return victims.length === 0 ? undefined : victims.map((victim) => ({ victim, outcome }));
  }

  /** Looks at every request. */
  views(): readonly BandView[] {
    const now = this.#clock.now();
    return this.#list.map((band, at) => ({
      ...band.load,
      ceiling: this.ceiling(at),
      ...band.flowsNow(SHOWN_FLOWS, now),
    }));
  }

  close(): void {
    this.#closed = true;
    this.#sweep?.cancel();
  }

  #make(): void {
    this.#list = [];
    this.#byPriority.clear();
    this.#add(0);
    for (const priority of this.#settings.bands.keys()) this.#add(priority);
    for (const priority of this.#wanted) this.#add(priority);
  }

  #add(priority: number): void {
    if (this.#byPriority.has(priority) || this.#list.length >= MAX_BANDS) return;
    const { bands, template, negativeTemplate } = this.#settings;
    const settings = bands.get(priority) ?? (priority < 0 ? negativeTemplate : template);
    const failed = (policy: string, error: unknown): void => this.#events.failed(policy, error);
    const band = new Band(priority, settings, this.#settings, this.#clock, failed);
    this.#byPriority.set(priority, band);
    this.#list.push(band);
    this.#list.sort((a, b) => b.priority - a.priority);
    this.#renumber();
  }

  #renumber(): void {
    this.#priorities = this.#list.map(({ priority }) => priority);
    this.#ceilings = this.#list.map(() => 1);
  }

  #isNamed(priority: number): boolean {
    return priority === 0 || this.#settings.bands.has(priority) || this.#wanted.has(priority);
  }

  /** The next band below this priority; the lowest where there is none. */
  #nearest(priority: number): Band {
    return this.#list.find((band) => band.priority <= priority) ?? this.#list.at(-1)!;
  }

  /** Removes the bands of former priorities once they have been empty for long. */
  #sweepLater(): void {
    if (this.#sweep !== undefined || this.#closed || this.#list.every(({ priority }) => this.#isNamed(priority)))
      return;
    this.#sweep = this.#clock.after(
      IDLE,
      () => {
        this.#sweep = undefined;
        const now = this.#clock.now();
        const isOver = (band: Band): boolean =>
          !this.#isNamed(band.priority) && band.requests === 0 && now - band.emptySince >= IDLE;
        for (const band of this.#list.filter(isOver)) this.#byPriority.delete(band.priority);
        this.#list = this.#list.filter((band) => !isOver(band));
        this.#renumber();
        for (const wanted of this.#wanted) this.#add(wanted);
        this.#sweepLater();
        this.#swept();
      },
      true,
    );
  }
}

/** What must leave before one more request of this size fits. */
function excess(load: QueueLoad, bytes: number): Room {
  const requests = Math.max(0, load.requests + 1 - load.maxRequests);
  const over = Math.max(0, load.bytes + bytes - load.maxBytes);
  return requests === 0 && over === 0 ? FITS : { requests, bytes: over };
}
