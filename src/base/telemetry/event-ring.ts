/** One thing that happened in a process. */
export interface RingEvent<K extends string> {
  /** From 1 up, without gaps. */
  readonly number: number;
  /** Wall-clock milliseconds; of the last one, where several were joined. */
  readonly at: number;
  readonly kind: K;
  /** "" = the process. */
  readonly subject: string;
  /** A sentence for people. */
  readonly text: string;
  /** How many were joined into this one; 1 = none. */
  readonly times: number;
}

/** Milliseconds of a window, and the events in it before those of one kind are joined. */
const WINDOW = 10_000;
const PER_WINDOW = 64;
/** The most characters of a subject and of a text: some come from outside. */
const MAX_TEXT = 512;

/**
 * The last events of a process. A storm does not push all others out: beyond 64 in 10 s, events of one kind join the
 * last one of their kind. Uses no Node API.
 */
export class EventRing<K extends string> {
  readonly capacity: number;
  readonly #wall: () => number;
  #events: RingEvent<K>[] = [];
  #next = 1;
  #window = Number.NEGATIVE_INFINITY;
  #inWindow = 0;
  /** The number of the joint event of each kind in this window. */
  readonly #joint = new Map<K, number>();
  #changed = 0;

  /** @param wall wall-clock milliseconds */
  constructor(wall: () => number, capacity = 512) {
    this.#wall = wall;
    this.capacity = capacity;
  }

  /** Number of the newest event; 0 before the first. */
  get newest(): number {
    return this.#next - 1;
  }

  /** Grows with each event, a joined one included. */
  get revision(): number {
    return this.#changed;
  }

  add(kind: K, subject: string, text: string): void {
    const at = this.#wall();
    this.#changed++;
    if (at - this.#window >= WINDOW || at < this.#window) {
      this.#window = at;
      this.#inWindow = 0;
      this.#joint.clear();
    }
    if (++this.#inWindow > PER_WINDOW) {
      const place = (this.#joint.get(kind) ?? 0) - (this.#events[0]?.number ?? 0);
      const joint = place >= 0 ? this.#events[place] : undefined;
      if (joint !== undefined) {
        this.#events[place] = { ...joint, at, times: joint.times + 1, text: shortened(text), subject: "" };
        return;
      }
      this.#joint.set(kind, this.#next);
    }
    this.#events.push({ number: this.#next++, at, kind, subject: shortened(subject), text: shortened(text), times: 1 });
    // Cut in blocks, so that an event costs no move of the whole list.
    if (this.#events.length >= 2 * this.capacity) this.#events = this.#events.slice(-this.capacity);
  }

  /** The events after a number, the oldest first, and how many of those are no longer kept. */
  after(number: number, limit = this.capacity): { readonly events: readonly RingEvent<K>[]; readonly lost: number } {
    const kept = this.#events.slice(-this.capacity).filter((event) => event.number > number);
    const events = kept.slice(-limit);
    return { events, lost: Math.max(0, this.newest - Math.max(0, number)) - events.length };
  }
}

function shortened(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT - 3)}...`;
}
