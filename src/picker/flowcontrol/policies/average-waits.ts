/** The most fairness IDs whose waits are known. Clients choose fairness IDs, so there must be a limit. */
const MAX_IDS = 4096;

/** The waits of one fairness ID. */
export interface Waits {
  readonly requests: number;
  /** Milliseconds of all of them together. */
  readonly total: number;
}

/** The waits of dispatched requests by fairness ID, for metrics (scheduling 8.5). No decision reads them. */
export class AverageWaits {
  /** By fairness ID, the one whose last request was dispatched longest ago first. */
  readonly #known = new Map<string, { requests: number; total: number; at: number }>();
  /** Milliseconds after its last dispatch at which a fairness ID is forgotten; Infinity = never for its age. */
  readonly #ttl: number;

  constructor(ttl: number) {
    this.#ttl = ttl;
  }

  /** A request was dispatched. @param waited milliseconds @param now monotonic milliseconds */
  add(fairnessId: string, waited: number, now: number): void {
    const waits = this.#known.get(fairnessId) ?? { requests: 0, total: 0, at: now };
    waits.requests++;
    waits.total += waited;
    waits.at = now;
    this.#known.delete(fairnessId);
    this.#known.set(fairnessId, waits);
    if (this.#known.size > MAX_IDS) this.#known.delete(this.#known.keys().next().value!);
  }

  /** The fairness IDs that are not forgotten. @param now monotonic milliseconds */
  known(now: number): ReadonlyMap<string, Waits> {
    for (const [fairnessId, { at }] of this.#known) {
      if (now - at <= this.#ttl) break;
      this.#known.delete(fairnessId);
    }
    return this.#known;
  }
}

/**
 * Jain's fairness index of the average waits: 1 where all fairness IDs wait equally long, 1/n where one of n waits alone. 1 also
 * for fewer than two fairness IDs (scheduling 8.5).
 */
export function fairnessIndex(waits: Iterable<Waits>): number {
  let count = 0;
  let sum = 0;
  let squares = 0;
  for (const { requests, total } of waits) {
    const average = total / requests;
    count++;
    sum += average;
    squares += average * average;
  }
  return count < 2 || squares === 0 ? 1 : (sum * sum) / (count * squares);
}
