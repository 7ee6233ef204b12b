import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Exchange, Wire } from "../../picker/exchange/wire.ts";
import type { Cors } from "./cors.ts";
import type { Deadlines } from "./deadlines.ts";
import type { OwnAnswer } from "./local-answer.ts";
import type { Authenticate, ProxyLimits, ProxyMetrics, ProxyOptions, ProxyTimers } from "./options.ts";
import type { PathTable } from "./path-table.ts";
import type { UpstreamPools } from "./upstream-pools.ts";

/** The objects that all requests of one proxy share. */
export interface ProxyServices {
  readonly clock: Clock;
  readonly random: Random;
  openExchange(wire: Wire): Exchange;
  paths: PathTable;
  cors: Cors | undefined;
  authenticate: Authenticate | undefined;
  readonly ownAnswer: OwnAnswer | undefined;
  maxRetries: number;
  retryStatuses: ReadonlySet<number>;
  readonly limits: ProxyLimits;
  readonly timers: ProxyTimers;
  readonly allowUnderscores: boolean;
  readonly metrics: ProxyMetrics | undefined;
  readonly onUnopened: ProxyOptions["onUnopened"];
  onError(error: unknown): void;
  readonly pools: UpstreamPools;
  readonly deadlines: Deadlines;
  readonly beginnings: BeginQueue;
  /** Every answer closes its connection. */
  draining: boolean;
}

/** A request that begins later in the same turn. */
interface Beginning {
  begin(): void;
}

/**
 * Lets a request begin after the parser has seen every byte that arrived with it. Node reports a request as soon as its headers
 * are parsed, and runs ticks between the pieces of its body. Only after the I/O events of this turn does the proxy know whether
 * the following bytes break HTTP. One timer serves all requests of a turn.
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
