import { type Clock, delay, type Timer } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { QuotaStore } from "./quota-store.ts";

/** Places whose return failed and is tried again; beyond it the oldest is forgotten: it frees itself within one window. */
export const MAX_PENDING = 10_000;
/** Milliseconds until the first repetition, and the longest pause after doublings. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 5_000;
/** Milliseconds that closing may take. */
const CLOSE_LIMIT = 1_000;

interface Place {
  readonly key: string;
  readonly member: string;
}

/**
 * Gives places of quotas back in the background: nobody waits for it and nothing of it throws. The first attempt leaves at
 * once, on the connection on which reservations are made, so that whoever asks next finds the place free.
 */
export class GiveBack {
  readonly #store: QuotaStore;
  readonly #clock: Clock;
  readonly #log: Logger;
  /** In the order in which they failed. */
  readonly #failed = new Set<Place>();
  readonly #running = new Set<Promise<void>>();
  #timer: Timer | undefined;
  #pause = FIRST_PAUSE;
  #closed = false;

  constructor(store: QuotaStore, clock: Clock, log: Logger) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
  }

  /** How many places wait to be given back again. */
  get pending(): number {
    return this.#failed.size;
  }

  give(key: string, member: string): void {
    const places = [{ key, member }];
    // A store that neither answers nor fails must not collect questions without end.
    if (this.#running.size >= MAX_PENDING) this.#keep(places, "the store does not answer");
    else this.#send(key, places);
  }

  #send(key: string, places: readonly Place[]): void {
    const sent = this.#store
      .giveBack(
        key,
        places.map(({ member }) => member),
      )
      .then(
        () => {
          this.#pause = FIRST_PAUSE;
        },
        (error) => this.#keep(places, error),
      )
      .finally(() => this.#running.delete(sent));
    this.#running.add(sent);
  }

  #keep(places: readonly Place[], error: unknown): void {
    for (const place of places) {
      this.#failed.add(place);
      if (this.#failed.size > MAX_PENDING)
        for (const oldest of this.#failed) {
          this.#failed.delete(oldest);
          break;
        }
    }
    if (this.#timer !== undefined || this.#closed) return;
    this.#log.warn({ error: messageOf(error), places: this.#failed.size }, "Quota not given back, trying again");
    this.#timer = this.#clock.after(this.#pause, () => this.#retry(), true);
    this.#pause = Math.min(LONGEST_PAUSE, this.#pause * 2);
  }

  #retry(): void {
    this.#timer = undefined;
    const byKey = new Map<string, Place[]>();
    for (const place of this.#failed) {
      const places = byKey.get(place.key);
      if (places === undefined) byKey.set(place.key, [place]);
      else places.push(place);
    }
    this.#failed.clear();
    for (const [key, places] of byKey) this.#send(key, places);
  }

  /** Tries what is left once more; what a store does not take within a second frees itself later. */
  async close(): Promise<void> {
    const limit = new AbortController();
    const end = delay(this.#clock, CLOSE_LIMIT, limit.signal).catch(() => {});
    await Promise.race([Promise.all(this.#running), end]);
    this.#closed = true;
    this.#timer?.cancel();
    this.#retry();
    await Promise.race([Promise.all(this.#running), end]);
    limit.abort();
  }
}
