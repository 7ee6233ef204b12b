import type { Clock, Timer } from "../../base/clock/clock.ts";

/** Milliseconds per bucket: also how late an entry may fire. */
const TICK = 10;
/** One turn is 5.12 s, longer than the longest back-off. Entries due later simply stay for more turns. */
const BUCKETS = 512;

/** `bucket` of an entry that does not wait. */
export const NOWHERE = -1;
/** `bucket` of an entry that is about to fire in this very tick. */
const FIRING = -2;

/** An entry that waits in a wheel. Its fields belong to the wheel. */
export interface WheelEntry {
  /** Monotonic milliseconds; meaningful while `bucket` >= 0. */
  due: number;
  /** Below 0 while the entry does not wait. */
  bucket: number;
  /** Position in its bucket. */
  place: number;
}

/**
 * Many timeouts on one timer. To move an entry is a few array writes. The timer is armed only for the next bucket with an
 * entry, so an empty wheel costs nothing. An entry fires at most one tick late and never early.
 */
export class TimerWheel<E extends WheelEntry> {
  readonly #clock: Clock;
  readonly #fire: (entry: E) => void;
  readonly #buckets: E[][] = Array.from({ length: BUCKETS }, () => []);
  readonly #firing: E[] = [];
  #size = 0;
  #timer: Timer | undefined;
  /** Number of the tick the timer is armed for. */
  #armed = Number.POSITIVE_INFINITY;
  /** Number of the last tick that has been processed. */
  #tick: number;

  /** @param fire called for each entry that is due; the entry then no longer waits */
  constructor(clock: Clock, fire: (entry: E) => void) {
    this.#clock = clock;
    this.#fire = fire;
    this.#tick = Math.floor(clock.now() / TICK);
  }

  /** Entries that wait. */
  get size(): number {
    return this.#size;
  }

  /** Lets `entry` fire at `due` (monotonic milliseconds; the past means at the next tick). A wait before this one ends. */
  put(entry: E, due: number): void {
    this.take(entry);
    const tick = Math.max(Math.ceil(due / TICK), this.#tick + 1);
    const bucket = this.#buckets[tick % BUCKETS]!;
    entry.due = due;
    entry.bucket = tick % BUCKETS;
    entry.place = bucket.length;
    bucket.push(entry);
    this.#size++;
    if (tick < this.#armed) this.#arm(tick);
  }

  /** Takes `entry` out; does nothing when it does not wait. */
  take(entry: E): void {
    if (entry.bucket < 0) {
      entry.bucket = NOWHERE;
      return;
    }
    const bucket = this.#buckets[entry.bucket]!;
    const last = bucket.pop()!;
    if (last !== entry) {
      bucket[entry.place] = last;
      last.place = entry.place;
    }
    entry.bucket = NOWHERE;
    this.#size--;
  }

  /** Takes everything out and disarms the timer. */
  clear(): void {
    for (const bucket of this.#buckets) while (bucket.length > 0) this.take(bucket[bucket.length - 1]!);
    this.#timer?.cancel();
    this.#armed = Number.POSITIVE_INFINITY;
  }

  #arm(tick: number): void {
    this.#timer?.cancel();
    this.#armed = tick;
    this.#timer = this.#clock.after(Math.ceil(tick * TICK - this.#clock.now()), () => this.#run(), true);
  }

  #run(): void {
    this.#armed = Number.POSITIVE_INFINITY;
    const now = Math.floor(this.#clock.now() / TICK);
    // After a stall longer than a turn one turn visits every bucket.
    const first = Math.max(this.#tick + 1, now - BUCKETS + 1);
    const firing = this.#firing;
    for (let tick = first; tick <= now; tick++)
      for (const entry of this.#buckets[tick % BUCKETS]!) if (entry.due <= now * TICK) firing.push(entry);
    this.#tick = Math.max(this.#tick, now);
    // Collected first, because a fired entry may put and take others, also entries that are still to fire.
    for (const entry of firing) {
      this.take(entry);
      entry.bucket = FIRING;
    }
    for (const entry of firing) {
      if (entry.bucket !== FIRING) continue;
      entry.bucket = NOWHERE;
      this.#fire(entry);
    }
    firing.length = 0;
    this.#armNext();
  }

  #armNext(): void {
    if (this.#size === 0) return;
    for (let tick = this.#tick + 1; tick <= this.#tick + BUCKETS; tick++) {
      if (this.#buckets[tick % BUCKETS]!.length === 0) continue;
      if (tick < this.#armed) this.#arm(tick);
      return;
    }
  }
}
