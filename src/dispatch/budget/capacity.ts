import type { Clock } from "../../clock/clock.ts";
import { messageOf } from "../../inference/errors.ts";
import type { CapacityReading, CapacitySource } from "../../plugin/gate.ts";
import { amount, fits, rounded } from "./amount.ts";
import { RunningHistory } from "./history.ts";
import { Ramp } from "./ramp.ts";

/** Milliseconds that a model server's figure may lag behind what was sent to it, before the sample is taken. */
const VISIBILITY_LAG = 200;

/** Room that a message has taken in a capacity. */
export interface Ticket {
  /** The request leaves now. @param cost what it costs after all */
  started(cost?: number): void;
  /** The room is free again; calling it twice does nothing. */
  release(): void;
}

/** Who asks for room. */
export interface Asker {
  readonly queueName: string;
  /** Workers of the pool: max_SYS where the gate knows none. */
  readonly workers: number;
  /** At most this share of N for the queue, 0..1. */
  readonly share: number;
}

export type CapacityState = "open" | "closed" | "unreadable" | "latched" | "unknown";

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
 * One capacity that queues spend, however many of them: the latest reading, what we run against it, and what may still go.
 *
 * The reading is a picture of the past. Our own work is what we know exactly, so the budget is brought up to now:
 * D = D(sample) - (own now - own at the time of the sample) / max_SYS. Between two samples the same N is thus spent once, and
 * what ends makes room before the next sample tells so. Work that waits (`queue-only` metrics) does not show in the
 * figure while it runs, so all of it is subtracted. Source: seed 004, async-processor 2.7; ADR 0010.
 */
export class Capacity {
  readonly source: CapacitySource;
  readonly #clock: Clock;
  readonly #replicas: number;
  readonly #onChange: () => void;
  readonly #history = new RunningHistory();
  readonly #perQueue = new Map<string, number>();
  readonly #ramp = new Ramp();
  #reading = UNKNOWN;
  #latchedAt = Number.NEGATIVE_INFINITY;
  /** Cost of everything admitted, and of that what was sent. */
  #admitted = 0;
  #running = 0;
  #tickets = 0;
  #asking: Promise<void> | undefined;

  /**
   * @param replicas dispatchers that share the capacity, >= 1: each takes an equal part of N
   * @param onChange called after every reading, and when room was given back
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

  /** Cost of what we run or are about to. */
  get own(): number {
    return this.#admitted;
  }

  /** What the latest sample says, before our own work is considered. */
  get state(): CapacityState {
    if (this.#reading === UNKNOWN) return "unknown";
    if (!this.#reading.readable) return "unreadable";
    if (this.#reading.sampleTime <= this.#latchedAt) return "latched";
    return this.#reading.budget > this.#reading.baseline ? "open" : "closed";
  }

  /** When the latest overload answer arrived, Unix milliseconds. */
  get latchedAt(): number {
    return this.#latchedAt;
  }

  /** Reads anew. @param fresh past the cache */
  refresh(fresh: boolean): Promise<void> {
    this.#asking ??= this.#read(fresh).finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  /** The gateway said that it is overloaded: closed until a sample that is later than this (seed 004). */
  latch(): void {
    this.#latchedAt = Math.max(this.#latchedAt, this.#clock.wall());
    this.#ramp.closed();
  }

  /** What may still go, in the reading's unit; 0 when closed. */
  allowance(asker: Asker): number {
    return this.#room(asker).allowance;
  }

  /** `free`: at least a first message may go. `full`: open, but what runs is all that may. */
  room(asker: Asker): "free" | "full" | "closed" {
    const { allowance, open } = this.#room(asker);
    if (!open) return "closed";
    return allowance > 0 || this.#admitted === 0 ? "free" : "full";
  }

  /** Closed, or newer readings leave less room than is taken; one that has it to itself stays. */
  overdrawn(asker: Asker): boolean {
    if (!this.#room(asker).open) return true;
    return this.#tickets > 1 && this.#admitted > this.#target(this.#reading.maxSys ?? asker.workers) + 1e-9;
  }

  /** N as the seed has it: of the latest sample, whatever runs. */
  total(workers: number): number {
    const { budget, baseline, unit, maxSys = workers } = this.#reading;
    return this.#believed ? rounded(amount({ maxSys, budget, baseline, unit }) / this.#replicas, unit) : 0;
  }

  /** Takes room for one message, or says that there is none. @param cost in the reading's unit, > 0 */
  take(cost: number, asker: Asker): Ticket | undefined {
    const fit = { ...this.#room(asker), cost, idle: this.#admitted === 0 };
    return fits(fit) ? this.#ticket(cost, asker.queueName) : undefined;
  }

  get #believed(): boolean {
    const { state } = this;
    return state === "open" || state === "closed";
  }

  #room(asker: Asker): { allowance: number; most: number; open: boolean } {
    const { baseline, unit, maxSys = asker.workers } = this.#reading;
    const most = (maxSys * (1 - baseline)) / this.#replicas;
    const target = this.#believed ? Math.min(this.#target(maxSys), most) : 0;
    if (target <= 0) return { allowance: 0, most, open: false };
    let allowance = Math.min(target, this.#ramp.cap(target)) - this.#admitted;
    if (asker.share < 1)
      allowance = Math.min(allowance, target * asker.share - (this.#perQueue.get(asker.queueName) ?? 0));
    return { allowance: rounded(allowance, unit), most, open: true };
  }

  /** How much of ours may run in all: the free part of the sample, and what of it we held ourselves. */
  #target(maxSys: number): number {
    const { budget, baseline, kind, sampleTime } = this.#reading;
    const free = (maxSys * (budget - baseline)) / this.#replicas;
    if (kind === "queue-only") return budget > baseline ? free : 0;
    const now = this.#clock.wall();
    // What began just before the sample may not be in it yet.
    return free + Math.min(this.#history.at(sampleTime, now), this.#history.at(sampleTime - VISIBILITY_LAG, now));
  }

  #ticket(cost: number, queueName: string): Ticket {
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
    this.#history.record(this.#clock.wall(), this.#running);
  }

  async #read(fresh: boolean): Promise<void> {
    let reading: CapacityReading;
    try {
      reading = await this.source.read(fresh);
    } catch (error) {
      // A gate that breaks its promise closes; it does not end the process.
      reading = { ...UNKNOWN, problem: messageOf(error) };
    }
    const later = reading.sampleTime > this.#reading.sampleTime;
    this.#reading = reading;
    // Full by our own doing is not closed.
    if (this.#believed && this.#target(reading.maxSys ?? 1) > 0) this.#ramp.open(later);
    else this.#ramp.closed();
    this.#onChange();
  }
}

/** Sums of fractions that should be 0 come out as dust. */
function settle(sum: number): number {
  return Math.abs(sum) < 1e-9 ? 0 : sum;
}
