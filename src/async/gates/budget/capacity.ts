import type { Clock } from "../../../base/clock/clock.ts";
import { messageOf } from "../../../base/inference/errors.ts";
import type { CapacityReading, CapacitySource } from "../../../base/plugin/gate.ts";
import { amount, fits, LearnedSize, Ramp, RunningHistory, rounded } from "./arithmetic.ts";

/** Milliseconds by which a model server's figure may lag behind the requests sent to it, before the sample is taken. */
const VISIBILITY_LAG = 200;
/** Milliseconds after which a source without an answer counts as unreadable: longer than any built-in source takes. */
const READ_LIMIT = 15_000;
/** Milliseconds between readings past the caches, for all callers together. */
const FRESH_INTERVAL = 900;
/**
 * Milliseconds after which other queues leave room for a message that does not fit beside the running ones, and for which they
 * leave it.
 */
const PATIENCE = 2000;
const KEPT_FOR = 3000;

/** Room that a message has taken in a capacity. */
export interface Ticket {
  /** The request leaves now. @param cost its final cost */
  started(cost?: number): void;
  /** The room is free again; calling it twice does nothing. */
  release(): void;
}

/** The queue that asks for room, and its pool. */
export interface Asker {
  readonly queueName: string;
  /** Workers of the pool: max_SYS where the gate knows none. */
  readonly workers: number;
  /** Largest share of N for the queue, 0..1. */
  readonly share: number;
}

export type CapacityState = "open" | "closed" | "unreadable" | "latched" | "unknown";

/** A message that gets room when enough running messages have ended. */
interface Large {
  readonly queueName: string;
  readonly since: number;
  /** When it was last tried. */
  seenAt: number;
}

const UNKNOWN: CapacityReading = {
  readable: false,
  problem: "not read yet",
  budget: 0,
  baseline: 0,
  maxSys: undefined,
  unit: "requests",
  kind: "occupancy",
  sampleTime: Number.NEGATIVE_INFINITY,
  value: 0,
  threshold: 0,
};

/**
 * One capacity that any number of queues spend: the latest reading, the own work against it, and the room that is left.
 *
 * The reading describes the past, and the own work is known exactly. So the budget is brought up to now: D = D(sample) - (own
 * now - own at the time of the sample) / max_SYS. Between two samples, the same N is thus spent only once. A message that ends
 * makes room before the next sample shows it. The figure of a `queue-only` metric does not contain running work, so all own
 * work is subtracted. Source: async-processor 2.7; ADR 0010.
 */
export class SharedCapacity {
  readonly source: CapacitySource;
  readonly #clock: Clock;
  readonly #replicas: number;
  readonly #onChange: () => void;
  readonly #history = new RunningHistory();
  readonly #perQueue = new Map<string, number>();
  readonly #ramp = new Ramp();
  readonly #learned = new LearnedSize();
  /** Workers of the largest pool that has asked. */
  #workers = 0;
  #reading = UNKNOWN;
  /** The time of the reading and of the latest overload answer, by the monotonic clock: a wall clock may be set back. */
  #sampledAt = Number.NEGATIVE_INFINITY;
  #latched = Number.NEGATIVE_INFINITY;
  #latchedAt = Number.NEGATIVE_INFINITY;
  /** Cost of all admitted messages, and of those that were sent. */
  #admitted = 0;
  #running = 0;
  #tickets = 0;
  #expected = 0;
  #large: Large | undefined;
  #asking: Promise<void> | undefined;
  #askingAnew: Promise<void> | undefined;
  #askedAnewAt = Number.NEGATIVE_INFINITY;

  /**
   * @param replicas dispatchers that share the capacity, >= 1: each takes an equal part of N
   * @param onChange called when a reading changes what may go, and when room is given back
   */
  constructor(source: CapacitySource, clock: Clock, replicas: number, onChange: () => void) {
    this.source = source;
    this.#clock = clock;
    this.#replicas = replicas;
    this.#onChange = onChange;
  }

  get reading(): CapacityReading {
    return this.#reading;
  }

  /** Cost of the own messages that run or are about to run. */
  get own(): number {
    return this.#admitted;
  }

  /** Cost of the messages that a broker was asked for and that have not arrived: further queues ask for the rest. */
  get expected(): number {
    return this.#expected;
  }

  /** Changes the expected cost by this amount, which may be negative. */
  expect(cost: number): void {
    this.#expected = settle(this.#expected + cost);
  }

  /** A queue expected more than came: others may want that room. */
  spared(): void {
    this.#onChange();
  }

  /** The state by the latest sample, before own work is considered. */
  get state(): CapacityState {
    if (this.#reading === UNKNOWN) return "unknown";
    if (!this.#reading.readable) return "unreadable";
    if (this.#sampledAt <= this.#latched) return "latched";
    return this.#reading.budget > this.#reading.baseline ? "open" : "closed";
  }

  /** When the latest overload answer arrived, Unix milliseconds. */
  get latchedAt(): number {
    return this.#latchedAt;
  }

  /**
   * Reads again; never rejects.
   * @param fresh past the cache, unless that was done within the last second: many waiting messages ask at the same time
   */
  refresh(fresh: boolean): Promise<void> {
    const now = this.#clock.now();
    if (fresh && (this.#askingAnew !== undefined || now - this.#askedAnewAt >= FRESH_INTERVAL)) {
      if (this.#askingAnew === undefined) this.#askedAnewAt = now;
      this.#askingAnew ??= this.#read(true).finally(() => {
        this.#askingAnew = undefined;
      });
      return this.#askingAnew;
    }
    // Not joined with the other question: the cached answer comes at once, even while a server does not answer.
    this.#asking ??= this.#read(false).finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  /** The gateway is overloaded: closed until a sample that is later than this (async-processor 2.5). */
  latch(): void {
    this.#latched = this.#clock.now();
    this.#latchedAt = this.#clock.wall();
    this.#ramp.closed();
  }

  /** The free room, in the reading's unit; 0 when closed. */
  allowance(asker: Asker): number {
    return this.#room(asker).allowance;
  }

  /** `free`: at least a first message may go. `full`: open, but the running work uses all the room. */
  room(asker: Asker): "free" | "full" | "closed" {
    const { allowance, first, open } = this.#room(asker);
    if (!open) return "closed";
    return allowance > 0 || first > 0 || this.#admitted === 0 ? "free" : "full";
  }

  /** True when closed, or when newer readings leave less room than is taken; a message alone in the capacity stays. */
  overdrawn(asker: Asker): boolean {
    if (!this.#room(asker).open) return true;
    return this.#tickets > 1 && this.#admitted > this.#target(asker.workers) + 1e-9;
  }

  /** N by the formula, of the latest sample; the running work makes no difference. */
  total(workers: number): number {
    const { budget, baseline, unit } = this.#reading;
    const maxSys = this.#maxSys(workers);
    return this.#believed ? rounded(amount({ maxSys, budget, baseline, unit }) / this.#replicas, unit) : 0;
  }

  /** Whether there is room for one message. @param cost in the reading's unit, > 0 */
  fits(cost: number, asker: Asker): boolean {
    const room = this.#room(asker);
    const { first, most, open } = room;
    if (fits({ ...room, cost, idle: this.#admitted === 0 }) || (first > 0 && cost <= first)) return true;
    // It would fit if no other own work ran.
    if (open && (cost <= this.#limit(asker) || cost > most)) this.#keepRoom(asker);
    return false;
  }

  /** Takes room for one message; undefined when there is none. @param cost in the reading's unit, > 0 */
  take(cost: number, asker: Asker): Ticket | undefined {
    return this.fits(cost, asker) ? this.#ticket(cost, asker.queueName) : undefined;
  }

  get #believed(): boolean {
    const { state } = this;
    return state === "open" || state === "closed";
  }

  /** `first`: the free room for a first message of a queue whose share is smaller than a message. */
  #room(asker: Asker): { allowance: number; first: number; most: number; open: boolean } {
    const { unit } = this.#reading;
    const most = this.#most(asker);
    const limit = this.#limit(asker);
    if (limit <= 0) return { allowance: 0, first: 0, most, open: false };
    const free = rounded(this.#keptFromHim(asker) ? 0 : limit - this.#admitted, unit);
    if (asker.share >= 1) return { allowance: free, first: 0, most, open: true };
    const own = this.#perQueue.get(asker.queueName) ?? 0;
    const allowance = Math.min(free, rounded(limit * asker.share - own, unit));
    return { allowance, first: own === 0 ? free : 0, most, open: true };
  }

  /** The most that could ever be free. */
  #most({ workers }: Asker): number {
    const { baseline, maxSys = workers } = this.#reading;
    return (maxSys * (1 - baseline)) / this.#replicas;
  }

  /** How much own work may run in all, as far as the gate has opened again; 0 = closed. */
  #limit(asker: Asker): number {
    if (!this.#believed) return 0;
    this.#workers = Math.max(this.#workers, asker.workers);
    const target = Math.min(this.#target(asker.workers), this.#most(asker));
    return target > 0 ? Math.min(target, this.#ramp.cap(target)) : 0;
  }

  /** Small messages of other queues would take each piece of room as it becomes free, and a large message would never fit. */
  #keepRoom({ queueName }: Asker): void {
    const now = this.#clock.now();
    if (this.#large !== undefined && now - this.#large.seenAt < KEPT_FOR) {
      if (this.#large.queueName === queueName) this.#large.seenAt = now;
    } else this.#large = { queueName, since: now, seenAt: now };
  }

  #keptFromHim({ queueName }: Asker): boolean {
    if (this.#large === undefined || this.#large.queueName === queueName) return false;
    const now = this.#clock.now();
    return now - this.#large.since >= PATIENCE && now - this.#large.seenAt < KEPT_FOR;
  }

  /** max_SYS of the reading. Without one: the learned size where the figure shows own work, else all workers. */
  #maxSys(workers: number): number {
    const { maxSys, kind } = this.#reading;
    return maxSys ?? (kind === "occupancy" ? this.#learned.of(workers) : workers);
  }

  /** How much own work may run in all: the free part of the sample, and the part that was own work. */
  #target(workers: number): number {
    const { budget, baseline, kind, maxSys } = this.#reading;
    const over = maxSys === undefined && budget < baseline;
    // The learned size is a lower bound, which would take back too little.
    const size = over ? Math.min(workers, 2 * this.#maxSys(workers)) : this.#maxSys(workers);
    const free = (size * (budget - baseline)) / this.#replicas;
    if (kind === "queue-only") return budget > baseline ? free : 0;
    return free + this.#ownInSample;
  }

  /** The own work that the sample shows: work that began just before it may be missing. */
  get #ownInSample(): number {
    const now = this.#clock.now();
    const sampled = this.#sampledAt;
    return Math.min(this.#history.at(sampled, now), this.#history.at(sampled - VISIBILITY_LAG, now));
  }

  #ticket(cost: number, queueName: string): Ticket {
    if (this.#large?.queueName === queueName) this.#large = undefined;
    let taken = cost;
    let state: "admitted" | "running" | "released" = "admitted";
    this.#tickets++;
    this.#admit(cost, queueName);
    return {
      started: (now = taken) => {
        if (state !== "admitted") return;
        state = "running";
        this.#admit(now - taken, queueName);
        taken = now;
        this.#run(taken);
      },
      release: () => {
        if (state === "released") return;
        if (state === "running") this.#run(-taken);
        state = "released";
        this.#tickets--;
        this.#admit(-taken, queueName);
        if (this.#tickets === 0) this.#clear();
        this.#onChange();
      },
    };
  }

  #admit(cost: number, queueName: string): void {
    this.#admitted = settle(this.#admitted + cost);
    const queue = settle((this.#perQueue.get(queueName) ?? 0) + cost);
    if (queue === 0) this.#perQueue.delete(queueName);
    else this.#perQueue.set(queueName, queue);
  }

  #run(cost: number): void {
    this.#running = settle(this.#running + cost);
    this.#history.record(this.#clock.now(), this.#running);
  }

  /** No own work runs: this clears the rounding errors of sums of very different costs. */
  #clear(): void {
    this.#admitted = 0;
    this.#running = 0;
    this.#perQueue.clear();
    this.#history.record(this.#clock.now(), 0);
  }

  async #read(fresh: boolean): Promise<void> {
    let reading: CapacityReading;
    try {
      reading = checked(await this.#answer(fresh));
    } catch (error) {
      // A gate that breaks its promise closes; it does not end the process.
      reading = unreadable(messageOf(error));
    }
    const before = { reading: this.#reading, state: this.state, part: this.#ramp.part };
    const later = reading.sampleTime > this.#reading.sampleTime;
    if (reading.sampleTime !== this.#reading.sampleTime)
      this.#sampledAt = this.#clock.now() - Math.max(0, this.#clock.wall() - reading.sampleTime);
    this.#reading = reading;
    if (later && this.#believed && reading.kind === "occupancy")
      this.#learned.learn({
        taken: 1 - reading.budget,
        ceiling: 1 - reading.baseline,
        own: this.#ownInSample * this.#replicas,
        workers: this.#workers,
      });
    // A capacity that is full of own work is not closed.
    if (this.#believed && this.#target(1) > 0) this.#ramp.open(later, this.#clock.now());
    else this.#ramp.closed();
    // No call without a change: users that read again at each call would make each other read for ever.
    if (this.state !== before.state || this.#ramp.part !== before.part || !alike(reading, before.reading))
      this.#onChange();
  }

  #answer(fresh: boolean): Promise<CapacityReading> {
    return new Promise((resolve, reject) => {
      const late = unreadable(`the source has not answered within ${READ_LIMIT / 1000} s`);
      const timer = this.#clock.after(READ_LIMIT, () => resolve(late), true);
      Promise.resolve(this.source.read(fresh))
        .then(resolve, reject)
        .finally(() => timer.cancel());
    });
  }
}

function unreadable(problem: string): CapacityReading {
  return { ...UNKNOWN, problem };
}

/** The reading, or a reading with the error in it: gates and sources may be the user's code. */
function checked(reading: CapacityReading): CapacityReading {
  if (!reading.readable) return reading;
  const { budget, baseline, maxSys, sampleTime } = reading;
  const wrong = Object.entries({ budget, baseline, maxSys: maxSys ?? 0, sampleTime }).find(
    ([, value]) => !Number.isFinite(value),
  );
  if (wrong !== undefined) return unreadable(`the source reports ${wrong[0]} = ${String(wrong[1])}`);
  return { ...reading, budget: within(budget), baseline: within(baseline) };
}

function within(share: number): number {
  return Math.min(1, Math.max(0, share));
}

function alike(a: CapacityReading, b: CapacityReading): boolean {
  return (
    a.sampleTime === b.sampleTime &&
    a.budget === b.budget &&
    a.baseline === b.baseline &&
    a.maxSys === b.maxSys &&
    a.unit === b.unit &&
    a.kind === b.kind
  );
}

/** Sums of fractions that should be 0 leave tiny remainders. */
function settle(sum: number): number {
  return Math.abs(sum) < 1e-9 ? 0 : sum;
}
