import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Exchange, Wire } from "../../picker/exchange/wire.ts";
import type { Deadlines } from "./deadlines.ts";
import type { ProxyLimits, ProxyMetrics, ProxyTimers } from "./options.ts";
import type { UpstreamPools } from "./upstream-pools.ts";

/** What all requests of one proxy share. */
export interface ProxyServices {
  readonly clock: Clock;
  readonly random: Random;
  openExchange(wire: Wire): Exchange;
  readonly maxRetries: number;
  readonly retryStatuses: ReadonlySet<number>;
  readonly limits: ProxyLimits;
  readonly timers: ProxyTimers;
  readonly allowUnderscores: boolean;
  readonly metrics: ProxyMetrics | undefined;
  onError(error: unknown): void;
  readonly pools: UpstreamPools;
  readonly deadlines: Deadlines;
  readonly beginnings: BeginQueue;
  /** No request after the ones in progress: their answers close their connections. */
  draining: boolean;
}

/** Something that begins a little later. */
interface Beginning {
  begin(): void;
}

/**
 * Lets requests begin once the parser has seen every byte that arrived with them. Node reports a request as soon as its
 * headers are parsed, and runs ticks between the pieces of its body: only after the I/O events of this turn is it known
 * whether the bytes that followed break HTTP. One timer for all requests of a turn.
 */
export class BeginQueue {
  readonly #clock: Clock;
  #queue: Beginning[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(beginning: Beginning): void {
    if (this.#queue.push(beginning) === 1) this.#clock.soon(this.#run);
  }

  readonly #run = (): void => {
    const queue = this.#queue;
    this.#queue = [];
    for (const beginning of queue) beginning.begin();
  };
}
