import type { Clock } from "../../base/clock/clock.ts";
import type { EventIndex } from "../prefix/event-index.ts";
import { EXPECTED } from "../prefix/lanes.ts";

/** The most expected blocks, and their share of the index: they must not push out what engines announce. The oldest go first. */
const MAX_BLOCKS = 2 ** 20;
const MAX_SHARE = 1 / 8;

interface Expectation {
  readonly until: number;
  readonly slot: number;
  /** Both halves of each key in turn. */
  readonly keys: Int32Array;
}

/** Blocks that an endpoint is about to have, because a request was routed there, for a while (scheduling 3.14). */
export class Speculation {
  readonly #index: EventIndex;
  readonly #clock: Clock;
  readonly #tier: number;
  readonly #ttl: number;
  readonly #most: number;
  /** Oldest first. */
  #waiting: Expectation[] = [];
  #done = 0;
  #blocks = 0;

  /** @param ttl milliseconds */
  constructor(index: EventIndex, clock: Clock, tier: number, ttl: number) {
    this.#index = index;
    this.#clock = clock;
    this.#tier = tier;
    this.#ttl = ttl;
    this.#most = Math.min(MAX_BLOCKS, Math.floor(index.maxPairs * MAX_SHARE));
  }

  /** Requests whose blocks are expected. */
  get requests(): number {
    return this.#waiting.length - this.#done;
  }

  /** Blocks that are expected, with repetitions. */
  get blocks(): number {
    return this.#blocks;
  }

  /** @param given both halves of each key in turn; what is above the bound of all is ignored */
  expect(slot: number, given: Int32Array): void {
    const keys = given.subarray(0, 2 * this.#most);
    this.expire();
    // Before the new ones come, or these would push out what engines announced.
    while (this.#blocks + keys.length / 2 > this.#most) this.#dropOldest();
    for (let i = 0; i < keys.length; i += 2)
      this.#index.add(slot, EXPECTED, this.#tier, keys[i]!, keys[i + 1]!, keys[i]!, keys[i + 1]!);
    this.#waiting.push({ until: this.#clock.now() + this.#ttl, slot, keys });
    this.#blocks += keys.length / 2;
  }

  /** Forgets what did not come in time. Called before each lookup. */
  expire(): void {
    const now = this.#clock.now();
    while (this.#done < this.#waiting.length && this.#waiting[this.#done]!.until <= now) this.#dropOldest();
  }

  /** The endpoint of the slot is gone: the slot may be another's when the time of its blocks is over. */
  forget(slot: number): void {
    const kept = this.#waiting.slice(this.#done).filter((one) => one.slot !== slot);
    this.#waiting = kept;
    this.#done = 0;
    this.#blocks = kept.reduce((sum, { keys }) => sum + keys.length / 2, 0);
  }

  #dropOldest(): void {
    const { slot, keys } = this.#waiting[this.#done++]!;
    this.#blocks -= keys.length / 2;
    for (let i = 0; i < keys.length; i += 2) this.#index.remove(slot, EXPECTED, this.#tier, keys[i]!, keys[i + 1]!);
    // The done part of the list is given back when it is most of it.
    if (this.#done >= 64 && 2 * this.#done > this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#done);
      this.#done = 0;
    }
  }
}
