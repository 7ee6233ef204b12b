import type { Clock } from "../../base/clock/clock.ts";
import type { DispatchMetrics } from "../../base/telemetry/dispatch-metrics.ts";
import { EventRing } from "../../base/telemetry/event-ring.ts";
import { SecondRing } from "../../base/telemetry/second-ring.ts";
import { SteadyWall } from "../../base/telemetry/steady-wall.ts";
import type { CapacityState, SharedCapacity } from "../gates/budget/capacity.ts";
import type { BacklogPoller } from "./backlog-poller.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { reasons } from "./views.ts";

/** Seconds of the ring: 15 minutes. */
const SECONDS = 900;
/** The most capacities with a timeline, and the most changes of one. */
const MAX_CAPACITIES = 256;
const MAX_CHANGES = 64;
const WINDOW_MS = SECONDS * 1000;

/** The counters of messages, with their families. */
export const MESSAGES = {
  success: "successfulRequestsTotal",
  failed: "failedRequestsTotal",
  expired: "exceededDeadlineRequestsTotal",
  shed: "sheddedRequestsTotal",
  retried: "requestRetriesTotal",
} as const satisfies Readonly<Record<string, keyof DispatchMetrics>>;
export type MessageCount = keyof typeof MESSAGES;
export const MESSAGE_COUNTS = Object.keys(MESSAGES) as MessageCount[];

export const DISPATCH_GAUGE = {
  inFlight: 0,
  backlog: 1,
  oldest: 2,
  eta: 3,
  D: 4,
  B: 5,
  N: 6,
  gate: 7,
  cpu: 8,
  lag: 9,
  /** 1 = messages can be claimed and results can be written, 0 = not. */
  broker: 10,
} as const;

/** A change of the state of a capacity. */
export interface CapacityChange {
  /** Wall-clock milliseconds. */
  readonly at: number;
  readonly state: CapacityState;
  readonly because: string;
}

/**
 * What the page shows of a dispatcher: a ring of 900 seconds, and the states of the capacities. Once a second it reads the
 * counters of `/metrics`, so both show the same; the time of an attempt is observed as it ends.
 */
export class DispatchWatch {
  readonly ring: SecondRing;
  readonly events: EventRing<
    "process-started" | "drain-began" | "gate-closed" | "gate-open" | "store-away" | "store-back"
  >;
  readonly #clock: Clock;
  readonly #wall: SteadyWall;
  readonly #metrics: DispatchMetrics;
  readonly #before = new Float64Array(MESSAGE_COUNTS.length);
  #isAway = false;
  readonly #changes = new Map<string, readonly CapacityChange[]>();

  constructor(clock: Clock, metrics: DispatchMetrics) {
    this.#clock = clock;
    this.#metrics = metrics;
    this.#wall = new SteadyWall(clock);
    this.events = new EventRing(() => clock.wall());
    this.ring = new SecondRing(
      {
        seconds: SECONDS,
        sums: MESSAGE_COUNTS.length,
        gauges: Object.keys(DISPATCH_GAUGE).length,
        histograms: 1,
        counts: 0,
      },
      this.#wall.second(),
    );
  }

  /** The present time in Unix milliseconds. It never falls. */
  wall(): number {
    return this.#wall.of(this.#clock.now());
  }

  /** One attempt at a gateway has ended. */
  latency(ms: number): void {
    this.ring.observe(0, ms);
  }

  /** Since the start, as `/metrics` shows it. */
  total(count: MessageCount): number {
    let total = 0;
    for (const series of this.#metrics[MESSAGES[count]].series()) total += series.value;
    return total;
  }

  /** The states that a capacity had in the last 15 minutes, the oldest first; the first may have begun earlier. */
  changes(capacity: string): readonly CapacityChange[] {
    return this.#changes.get(capacity) ?? [];
  }

  /** Once a second, when a new one has begun. @param load of the process */
  sample(
    dispatcher: Dispatcher,
    backlog: Pick<BacklogPoller, "views">,
    load: { readonly cpu: number; readonly lag: number },
  ): void {
    const { ring } = this;
    for (const [place, count] of MESSAGE_COUNTS.entries()) {
      const total = this.total(count);
      ring.add(place, total - this.#before[place]!);
      this.#before[place] = total;
    }
    this.#wall.align();
    ring.advance(this.#wall.second());
    const figures = figuresOf(dispatcher, backlog);
    for (const [name, place] of Object.entries(DISPATCH_GAUGE))
      ring.set(place, figures[name as keyof typeof figures] ?? Number.NaN);
    ring.set(DISPATCH_GAUGE.cpu, load.cpu);
    ring.set(DISPATCH_GAUGE.lag, load.lag);
    for (const capacity of dispatcher.capacities.values()) this.#follow(capacity);
    this.#followBroker(dispatcher.health.unusable);
  }

  #followBroker(problem: string | undefined): void {
    const isAway = problem !== undefined;
    if (isAway === this.#isAway) return;
    this.#isAway = isAway;
    if (isAway) this.events.add("store-away", "broker", `the broker cannot be used: ${problem}`);
    else this.events.add("store-back", "broker", "the broker can be used again");
  }

  #follow(capacity: SharedCapacity): void {
    const { key } = capacity.source;
    const { state } = capacity;
    const known = this.#changes.get(key);
    const last = known?.at(-1);
    if (last?.state === state || (known === undefined && this.#changes.size >= MAX_CAPACITIES)) return;
    const at = this.#clock.wall();
    const because = reasons(capacity, at);
    const recent = (known ?? []).filter((_, n) => (known?.[n + 1]?.at ?? at) > at - WINDOW_MS);
    this.#changes.set(key, [...recent, { at, state, because }].slice(-MAX_CHANGES));
    const wasOpen = last === undefined || last.state === "open";
    if (state === "open" && last !== undefined)
      this.events.add("gate-open", key, `the gate of ${key} is open: ${because}`);
    else if (state !== "open" && state !== "unknown" && wasOpen)
      this.events.add("gate-closed", key, `the gate of ${key} is ${state}: ${because}`);
  }
}

type Sampled = Exclude<keyof typeof DISPATCH_GAUGE, "cpu" | "lag">;

function figuresOf(dispatcher: Dispatcher, backlog: Pick<BacklogPoller, "views">): Partial<Record<Sampled, number>> {
  const views = [...backlog.views.values()];
  const capacities = [...dispatcher.capacities.values()];
  const [first] = capacities;
  const workers = Math.max(0, ...dispatcher.pools.map(({ settings }) => settings.workers));
  const ages = views.map(({ age }) => age).filter((age) => Number.isFinite(age));
  const isAway = dispatcher.health.unusable !== undefined;
  const read = first?.reading.readable === true ? first.reading : undefined;
  return {
    inFlight: dispatcher.pools.reduce((sum, { running }) => sum + running, 0),
    // What is in the store of a broker that is away is not known.
    backlog: views.length === 0 || isAway ? Number.NaN : views.reduce((sum, { waiting }) => sum + (waiting || 0), 0),
    oldest: ages.length === 0 || isAway ? Number.NaN : Math.max(...ages),
    eta: views.length === 0 || isAway ? Number.NaN : Math.max(...views.map(({ eta }) => eta)),
    D: read?.budget ?? Number.NaN,
    B: read?.baseline ?? Number.NaN,
    N: first?.total(workers) ?? Number.NaN,
    broker: Number(!isAway),
    gate: capacities.length === 0 ? Number.NaN : Number(capacities.every(({ state }) => state === "open")),
  };
}
