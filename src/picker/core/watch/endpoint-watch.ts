import type { Endpoint, EndpointState } from "../../../base/inference/endpoint.ts";
import { RING_BUCKETS, ringBucket } from "../../../base/telemetry/second-ring.ts";

/** Seconds of one step, and steps that are kept: 15 minutes. */
export const STEP_SECONDS = 15;
export const STEPS = 60;
/** The most endpoints that get a history; further ones have their present figures only. */
const MAX_WATCHED = 2048;
/** The most changes of state kept for one endpoint. */
const MAX_CHANGES = 32;

/** Columns of a step. */
const ROUTED = 0;
const ENDED = 1;
const OUTPUT = 2;
const TTFT = 3;
const TTFTS = 4;
const TPOT = 5;
const TPOTS = 6;
const IN_FLIGHT = 7;
const KV = 8;
const COLUMNS = 9;

/** A change of state. */
export interface WatchedChange {
  /** Wall-clock milliseconds. */
  readonly at: number;
  readonly state: EndpointState;
  readonly cause: string;
}

/** Means and rates over the last 60 to 75 seconds; NaN = none. */
export interface RecentFigures {
  readonly seconds: number;
  readonly routed: number;
  readonly tokensPerSecond: number;
  readonly ttftMs: number;
  readonly tpotMs: number;
}

/** A step of the last 15 minutes; NaN = the endpoint was not there. */
export interface WatchedStep {
  readonly inFlight: number;
  readonly kvUsage: number;
  readonly requestsPerSecond: number;
  readonly tokensPerSecond: number;
}

/** The last 15 minutes of one endpoint. */
export class EndpointHistory {
  /** Requests routed to it, and attempts that failed. */
  requests = 0;
  failures = 0;
  changes: readonly WatchedChange[] = [];
  /** Changes that are no longer kept. */
  earlier = 0;
  readonly #steps = new Float32Array(STEPS * COLUMNS).fill(Number.NaN);
  /** Times to the first token, of this quarter of an hour and of the one before. */
  #ttfts = new Uint32Array(RING_BUCKETS);
  #formerTtfts = new Uint32Array(RING_BUCKETS);
  #step: number;
  readonly #first: number;

  /** @param step number of the present step */
  constructor(step: number) {
    this.#first = step;
    this.#step = step;
    this.#clear(step);
  }

  static readonly bytes = STEPS * COLUMNS * 4 + 2 * RING_BUCKETS * 4;

  advance(step: number): void {
    if (step <= this.#step) return;
    for (let next = Math.max(this.#step + 1, step - STEPS + 1); next <= step; next++) this.#clear(next);
    if (Math.floor(step / STEPS) !== Math.floor(this.#step / STEPS)) {
      this.#formerTtfts = this.#ttfts;
      this.#ttfts = new Uint32Array(RING_BUCKETS);
    }
    this.#step = step;
  }

  routed(): void {
    this.requests++;
    this.#add(ROUTED, 1);
  }

  /** @param tpotMs per output token of a stream; NaN = unknown, as the others */
  ended(outputTokens: number, ttftMs: number, tpotMs: number): void {
    this.#add(ENDED, 1);
    if (outputTokens > 0) this.#add(OUTPUT, outputTokens);
    if (ttftMs >= 0) {
      this.#add(TTFT, ttftMs);
      this.#add(TTFTS, 1);
      this.#ttfts[ringBucket(ttftMs)]!++;
    }
    if (tpotMs >= 0) {
      this.#add(TPOT, tpotMs);
      this.#add(TPOTS, 1);
    }
  }

  /** The load of the moment. */
  seen(inFlight: number, kvUsage: number): void {
    const at = (this.#step % STEPS) * COLUMNS;
    this.#steps[at + IN_FLIGHT] = Math.max(this.#steps[at + IN_FLIGHT]!, inFlight);
    this.#steps[at + KV] = kvUsage;
  }

  changed(change: WatchedChange): void {
    if (this.changes.length === MAX_CHANGES) this.earlier++;
    this.changes = [...this.changes, change].slice(-MAX_CHANGES);
  }

  /** @param second the present one */
  recent(second: number): RecentFigures {
    const whole = Math.min(4, this.#step - this.#first);
    const seconds = whole * STEP_SECONDS + (second % STEP_SECONDS) + 1;
    const sum = (column: number): number => {
      let total = 0;
      for (let step = this.#step - whole; step <= this.#step; step++)
        total += this.#steps[(step % STEPS) * COLUMNS + column]!;
      return total;
    };
    return {
      seconds,
      routed: sum(ROUTED),
      tokensPerSecond: sum(OUTPUT) / seconds,
      ttftMs: sum(TTFT) / sum(TTFTS),
      tpotMs: sum(TPOT) / sum(TPOTS),
    };
  }

  /** The steps from the oldest to the last full one. */
  steps(): readonly WatchedStep[] {
    return Array.from({ length: STEPS - 1 }, (_, n) => {
      const step = this.#step - STEPS + 1 + n;
      const at = (((step % STEPS) + STEPS) % STEPS) * COLUMNS;
      const known = step >= this.#first;
      const of = (column: number): number => (known ? this.#steps[at + column]! : Number.NaN);
      return {
        inFlight: of(IN_FLIGHT),
        kvUsage: of(KV),
        requestsPerSecond: of(ENDED) / STEP_SECONDS,
        tokensPerSecond: of(OUTPUT) / STEP_SECONDS,
      };
    });
  }

  /** Number of the last full step. */
  get lastFull(): number {
    return this.#step - 1;
  }

  /** Buckets of the times to the first token of the last 15 to 30 minutes. */
  ttfts(): Float64Array {
    return Float64Array.from(this.#ttfts, (count, i) => count + this.#formerTtfts[i]!);
  }

  #add(column: number, value: number): void {
    this.#steps[(this.#step % STEPS) * COLUMNS + column]! += value;
  }

  #clear(step: number): void {
    const at = (step % STEPS) * COLUMNS;
    this.#steps.fill(0, at, at + KV);
    this.#steps[at + KV] = Number.NaN;
  }
}

/** The histories of the endpoints of a pool, at most 2,048. */
export class EndpointWatch {
  readonly #histories = new Map<Endpoint, EndpointHistory>();
  #step: number;

  /** @param second the present one */
  constructor(second: number) {
    this.#step = Math.floor(second / STEP_SECONDS);
  }

  get bytes(): number {
    return this.#histories.size * EndpointHistory.bytes;
  }

  /** Undefined for an endpoint beyond the limit. */
  of(endpoint: Endpoint): EndpointHistory | undefined {
    return this.#histories.get(endpoint);
  }

  /** @param change the state in which it came */
  added(endpoint: Endpoint, change: WatchedChange): void {
    if (this.#histories.size >= MAX_WATCHED) return;
    const history = new EndpointHistory(this.#step);
    history.changed(change);
    this.#histories.set(endpoint, history);
  }

  removed(endpoint: Endpoint): void {
    this.#histories.delete(endpoint);
  }

  /** Once a second: moves on, and looks at the loads once a step. */
  advance(second: number): void {
    const step = Math.floor(second / STEP_SECONDS);
    const isNew = step > this.#step;
    this.#step = Math.max(step, this.#step);
    // The load of each endpoint counts three times in a step: enough for a line of 60 points.
    if (!isNew && second % 5 !== 0) return;
    for (const [endpoint, history] of this.#histories) {
      history.advance(this.#step);
      history.seen(endpoint.inFlight.requests, endpoint.metrics.kvUsage);
    }
  }
}
