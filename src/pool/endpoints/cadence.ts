import type { Random } from "../../base/clock/random.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";

/** The shortest distance between two scrapes of one endpoint, milliseconds (scheduling 1.2). */
export const MIN_INTERVAL = 50;
/** Milliseconds after its last request for which an endpoint still counts as busy. */
const AFTERGLOW = 1000;

/**
 * Idle endpoints are scraped in batches this many milliseconds apart. Most of the cost of a lone scrape is to wake up with cold
 * caches: 100 bare fetches a second took 0.028 core one by one and 0.020 in fives.
 */
const BATCH = 50;

export interface CadenceOptions {
  /** Milliseconds between scrapes of a busy endpoint; values below 50 are raised to 50, the default. */
  readonly interval?: number;
  /** True keeps every endpoint at `interval`, busy or not: `--refresh-metrics-interval` was given. Default false. */
  readonly fixed?: boolean;
  /** Most milliseconds between scrapes of an idle endpoint; default 1,000. */
  readonly idleInterval?: number;
  /**
   * Scrapes per second that all busy endpoints together may take before their intervals stretch; default 2,000. Local in-flight
   * counts are exact in between. So a large busy pool loses little accuracy and keeps its decision thread free.
   */
  readonly maxPerSecond?: number;
}

/** The distance between two scrapes of an endpoint: short while it has traffic, growing while it has none. */
export class Cadence {
  /** Milliseconds. */
  readonly base: number;
  readonly adaptive: boolean;
  readonly #idle: number;
  readonly #maxPerSecond: number;

  constructor(options: CadenceOptions) {
    this.base = Math.max(MIN_INTERVAL, options.interval ?? MIN_INTERVAL);
    this.adaptive = options.fixed !== true;
    this.#idle = Math.max(this.base, options.idleInterval ?? 1000);
    this.#maxPerSecond = options.maxPerSecond ?? 2000;
  }

  isBusy(endpoint: PoolEndpoint, now: number): boolean {
    return endpoint.inFlight.requests > 0 || now - endpoint.lastTrafficAt <= AFTERGLOW;
  }

  /**
   * @param interval the present one, milliseconds
   * @param busyCount busy endpoints in all, this one included
   */
  next(interval: number, busy: boolean, busyCount: number, random: Random): number {
    if (!this.adaptive) return this.base;
    if (busy) return Math.max(this.base, (1000 * busyCount) / this.#maxPerSecond);
    const grown = interval * (1.5 + 0.5 * random.next());
    // Up to a tenth below the idle interval, so that endpoints which fell idle together drift apart.
    return Math.min(grown, Math.max(this.base, this.#idle * (1 - 0.1 * random.next())));
  }

  /**
   * When to start the scrape that is due at `at`, monotonic milliseconds. With a long interval it joins the batch before it.
   * @param interval milliseconds
   */
  batched(at: number, interval: number): number {
    return this.adaptive && interval >= 4 * BATCH ? at - (at % BATCH) : at;
  }
}
