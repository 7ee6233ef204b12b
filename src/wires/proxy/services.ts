import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Exchange, Wire } from "../../picker/exchange/wire.ts";
import type { BeginQueue } from "./begin-queue.ts";
import type { Cors } from "./cors.ts";
import type { Deadlines } from "./deadlines.ts";
import type { OwnAnswer } from "./local-answer.ts";
import type { LocalService } from "./local-service.ts";
import type { Authenticate, ProxyLimits, ProxyMetrics, ProxyOptions, ProxyTimers } from "./options.ts";
import type { PathTable } from "./path-table.ts";
import type { StreamRests } from "./stream-rests.ts";
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
  /** Undefined = the gateway offers nothing but the model servers. */
  readonly local: LocalService | undefined;
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
  readonly rests: StreamRests;
  /** Every answer closes its connection. */
  draining: boolean;
}
