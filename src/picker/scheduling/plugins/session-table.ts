import type { Clock } from "../../../base/clock/clock.ts";

/** Sessions known at a time; the one idle for longest is forgotten first. */
export const MAX_SESSIONS = 65_536;

interface Binding {
  /** Id of the endpoint: it may come back under its name. */
  readonly endpoint: string;
  /** Monotonic milliseconds. */
  readonly usedAt: number;
}

/** Which endpoint each session is bound to, by ids that clients choose; bounded by `MAX_SESSIONS` (scheduling 3.9.2). */
export class SessionTable {
  readonly #ttl: number;
  readonly #sweepEvery: number;
  readonly #clock: Clock;
  /** In the order of `usedAt`. */
  readonly #bindings = new Map<string, Binding>();
  #sweptAt: number;

  /**
   * @param ttl milliseconds after which an idle session is forgotten, above 0
   * @param sweepEvery milliseconds between two looks for such, above 0
   */
  constructor(ttl: number, sweepEvery: number, clock: Clock) {
    this.#ttl = ttl;
    this.#sweepEvery = sweepEvery;
    this.#clock = clock;
    this.#sweptAt = clock.now();
  }

  /** Sessions known. */
  get size(): number {
    return this.#bindings.size;
  }

  /** The id of the endpoint that a session is bound to; it need not be in the pool any more. */
  endpointOf(session: string): string | undefined {
    return this.#bindings.get(session)?.endpoint;
  }

  /**
   * The session went to an endpoint.
   * @param keep whether the endpoint that it is bound to could have been chosen: it then stays bound to that one
   */
  bind(session: string, endpoint: string, keep: boolean): void {
    const binding = this.#bindings.get(session);
    if (keep && binding !== undefined && binding.endpoint !== endpoint) return;
    this.#bindings.delete(session);
    this.#bindings.set(session, { endpoint, usedAt: this.#clock.now() });
    if (this.#bindings.size <= MAX_SESSIONS) return;
    const [idlest] = this.#bindings.keys();
    this.#bindings.delete(idlest!);
  }

  /** Forgets sessions that were idle for too long, unless it has done so a moment ago. */
  sweep(): void {
    const now = this.#clock.now();
    if (now - this.#sweptAt < this.#sweepEvery) return;
    this.#sweptAt = now;
    for (const [session, { usedAt }] of this.#bindings) {
      if (now - usedAt <= this.#ttl) return;
      this.#bindings.delete(session);
    }
  }

  /** Sessions per endpoint. */
  counts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { endpoint } of this.#bindings.values()) counts.set(endpoint, (counts.get(endpoint) ?? 0) + 1);
    return counts;
  }
}
