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
/** The joint events whose changes are known: more than there are kinds. */
const MAX_JOINED = 64;
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
  /** The last joint events, with the revision that each one has: the newest last. */
  readonly #joinedAt = new Map<number, number>();
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
        this.#noteJoined(joint.number);
        this.#events[place] = { ...joint, at, times: joint.times + 1, text: shortened(text), subject: "" };
        return;
      }
      this.#joint.set(kind, this.#next);
    }
    this.#events.push({ number: this.#next++, at, kind, subject: shortened(subject), text: shortened(text), times: 1 });
    // Cut in blocks, so that an event costs no move of the whole list.
    if (this.#events.length >= 2 * this.capacity) this.#events = this.#events.slice(-this.capacity);
  }

  #noteJoined(number: number): void {
    this.#joinedAt.delete(number);
    this.#joinedAt.set(number, this.#changed);
    for (const oldest of this.#joinedAt.keys()) {
      if (this.#joinedAt.size <= MAX_JOINED) return;
      this.#joinedAt.delete(oldest);
    }
  }

  /** The events after a number, the oldest first: the newest `limit`. And how many events after the number are no longer kept. */
  after(number: number, limit = this.capacity): { readonly events: readonly RingEvent<K>[]; readonly lost: number } {
    const kept = this.#events.slice(-this.capacity).filter((event) => event.number > number);
    return { events: kept.slice(-limit), lost: Math.max(0, this.newest - Math.max(0, number)) - kept.length };
  }

  /** Kept events up to a number that others have joined since a revision, the oldest first. */
  joined(number: number, since: number): readonly RingEvent<K>[] {
    const found: RingEvent<K>[] = [];
    for (const [joint, revision] of this.#joinedAt) {
      const event = this.#events[joint - (this.#events[0]?.number ?? 0)];
      if (revision > since && joint <= number && event !== undefined) found.push(event);
    }
    return found.sort((a, b) => a.number - b.number);
  }
}

function shortened(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT - 3)}...`;
}
