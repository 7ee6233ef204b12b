import type { Clock } from "../../base/clock/clock.ts";
import { DispatchRate } from "./dispatch-rate.ts";

/** The figures of requests that wait. */
export interface BacklogFigures {
  readonly requests: number;
  /** Bytes of their bodies. */
  readonly bytes: number;
  /** Tokens of their prompts, estimated. */
  readonly tokens: number;
  /**
   * Seconds until all of them have left, by the rate of the last dispatches. While almost none leaves: for how long requests have
   * waited without a pause. 0 = none waits.
   */
  readonly waitSeconds: number;
}

/** A request as the backlog counts it. */
export interface Counted {
  readonly priority: number;
  readonly bytes: number;
  readonly tokens: number;
}

interface Sum {
  requests: number;
  bytes: number;
  tokens: number;
  /** Monotonic milliseconds at which the first request came to an empty sum. */
  readonly since: number;
}

/**
 * Counts the requests that wait by their own priority, as the gauges of queues do, for autoscalers. A priority is known while
 * requests of it wait, so priorities are never more than requests.
 */
export class Backlog {
  readonly #clock: Clock;
  readonly #byPriority = new Map<number, Sum>();
  readonly #rate: DispatchRate;
  readonly #listeners = new Set<() => void>();

  /** @param rate at which requests leave, which flow control counts */
  constructor(clock: Clock, rate = new DispatchRate()) {
    this.#clock = clock;
    this.#rate = rate;
  }

  entered({ priority, bytes, tokens }: Counted): void {
    let sum = this.#byPriority.get(priority);
    if (sum === undefined) {
      sum = { requests: 0, bytes: 0, tokens: 0, since: this.#clock.now() };
      this.#byPriority.set(priority, sum);
    }
    sum.requests++;
    sum.bytes += bytes;
    sum.tokens += tokens;
    // A listener may leave during its call. The copy is made only where there is one: this runs for every request.
    if (this.#listeners.size > 0) for (const listener of [...this.#listeners]) listener();
  }

  /** A request comes and goes on at once. */
  passed(request: Counted): void {
    if (this.#listeners.size === 0) return;
    this.entered(request);
    this.left(request);
  }

  /** A request that has entered leaves. */
  left({ priority, bytes, tokens }: Counted): void {
    const sum = this.#byPriority.get(priority)!;
    sum.requests--;
    sum.bytes -= bytes;
    sum.tokens -= tokens;
    if (sum.requests === 0) this.#byPriority.delete(priority);
  }

  /** @param from counts requests of this priority and above; default: all */
  figures(from = Number.NEGATIVE_INFINITY): BacklogFigures {
    const now = this.#clock.now();
    const total = { requests: 0, bytes: 0, tokens: 0 };
    let since = now;
    for (const [priority, sum] of this.#byPriority) {
      if (priority < from) continue;
      total.requests += sum.requests;
      total.bytes += sum.bytes;
      total.tokens += sum.tokens;
      since = Math.min(since, sum.since);
    }
    const { requests } = total;
    const wait = requests === 0 ? 0 : (this.#rate.timeFor(requests, now) ?? now - since);
    return { ...total, waitSeconds: wait / 1000 };
  }

  /** Calls `listener` after every request that enters, until the returned function is called. */
  onEntered(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
