import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Exchange, Wire } from "../../picker/exchange/wire.ts";
import type { BeginQueue } from "./begin-queue.ts";
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
