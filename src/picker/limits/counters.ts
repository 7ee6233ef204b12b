import { Counter, type LimitAmounts } from "./counter.ts";

/** The most counters of a process. */
export const MAX_COUNTERS = 65_536;
/** How many counters a full table looks at to find the one that leaves. */
const LOOKED_AT = 16;

/**
 * The counters of a process, at most `most`. Idle ones leave as others come. When all are in use, the one that is least full
 * among sixteen leaves, and its count is lost: a client that invents names displaces what it invented, and stops no other client.
 * A counter with requests in flight always stays; their number has bounds of its own.
 */
export class Counters {
  readonly #byId = new Map<string, Counter>();
  readonly #most: number;
  /** Called with each counter that leaves. @param lost its count was not 0 */
  readonly #left: (counter: Counter, lost: boolean) => void;

  constructor(left: (counter: Counter, lost: boolean) => void = () => {}, most = MAX_COUNTERS) {
    this.#left = left;
    this.#most = most;
  }

  get size(): number {
    return this.#byId.size;
  }

  values(): Iterable<Counter> {
    return this.#byId.values();
  }

  /**
   * The counter of this id, which is made if there is none.
   * @param held the counters of the same request, which stay
   * @param name for people, called for a new counter
   */
  of(
    id: string,
    rule: string,
    limits: LimitAmounts,
    now: number,
    held: readonly Counter[],
    name: () => string,
  ): Counter {
    const known = this.#byId.get(id);
    if (known !== undefined) {
      // The limits of a changed file count at once.
      known.limits = limits;
      return known;
    }
    this.#makeRoom(now, held);
    const made = new Counter(id, rule, name(), limits, now);
    this.#byId.set(id, made);
    return made;
  }

  #makeRoom(now: number, held: readonly Counter[]): void {
    let looked = 0;
    let least: Counter | undefined;
    // A table that is half empty is searched, too, by one counter for each new one: so idle counters leave in time.
    const most = this.#byId.size < this.#most ? 2 : LOOKED_AT;
    for (const counter of this.#byId.values()) {
      if (looked++ === most) break;
      if (held.includes(counter)) continue;
      counter.drain(now);
      // To the end of the order: the next search begins behind it.
      this.#byId.delete(counter.id);
      if (counter.idle) this.#left(counter, false);
      else {
        this.#byId.set(counter.id, counter);
        if (counter.inFlight === 0 && (least === undefined || counter.share < least.share)) least = counter;
      }
    }
    if (this.#byId.size < this.#most || least === undefined) return;
    this.#byId.delete(least.id);
    this.#left(least, true);
  }
}
